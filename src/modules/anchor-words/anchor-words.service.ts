import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AgentsService } from '#src/modules/agents/agents.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { AgentAnchors, DraftPersona, ExpandInput } from './anchor-words.model.ts';
import type { CandidateFinder } from './candidate-finder.ts';
import type { WordProposer } from './word-proposer.ts';

/** Somebody waits, and words come without the chat model, too. */
const proposalTimeoutMs = 20_000;
/** Their words are many, and those of others are further from the subject. */
const passageCount = 12;
const queryCharacters = 1_000;

export type AnchorWordsService = ReturnType<typeof createAnchorWordsService>;

/** The words that agents are anchored by, and those that they could be. */
export function createAnchorWordsService(deps: {
  agents: Pick<AgentsService, 'get'>;
  models: Pick<ModelsService, 'chatModels' | 'refusalOf'>;
  retrieval: Pick<RetrievalService, 'rankChunks'>;
  propose: WordProposer;
  find: CandidateFinder;
  logger: Pick<Logger, 'warn'>;
}) {
  const { agents, models, retrieval, propose, find, logger } = deps;

  async function personaOf(actor: Actor, of: ExpandInput['of']): Promise<DraftPersona & { words: string[] }> {
    if (!('agentId' in of)) {
      const refusal = of.chatModel === null ? null : await models.refusalOf('chat', of.chatModel, 'chat_model');
      if (refusal !== null) throw refusal;
      return { ...of, words: [] };
    }
    const { agentName, agentPrompt, tags, chatModel, anchorWords } = await agents.get(actor, of.agentId);
    return { agentName, agentPrompt, tags, chatModel, words: Object.keys(anchorWords) };
  }

  /** For want of an answer there are other words. */
  async function proposeInTime(
    subject: Parameters<WordProposer>[0],
    chatModel: string | null,
    signal: AbortSignal,
  ): Promise<string[]> {
    const model = chatModel ?? (await models.chatModels()).default;
    return propose(subject, { model, timeoutMs: proposalTimeoutMs, signal }).catch((error: unknown) => {
      signal.throwIfAborted();
      logger.warn({ err: error, model }, 'a chat model proposed no anchor words');
      return [];
    });
  }

  /** What stands in the documents that the caller may read, and nobody else's, about the persona. */
  async function passagesAbout(actor: Actor, persona: DraftPersona, signal: AbortSignal): Promise<string[]> {
    const query = [persona.agentName, persona.tags.join(', '), persona.agentPrompt]
      .join('. ')
      .slice(0, queryCharacters);
    const reranking = { isEnabled: false, type: null };
    const { ranked } = await retrieval.rankChunks(actor, { query, reranking, contextTokens: null, signal });
    return ranked.slice(0, passageCount).map(({ content }) => content);
  }

  return {
    /**
     * Up to forty words that an agent could be anchored by, best first: none of its own, of `words` and of
     * `excludeWords`. Throws `agent_not_found`, `unknown_model`, and `model_unavailable` and others of `Embedder` while
     * nothing can be embedded.
     */
    async expand(actor: Actor, { of, words, excludeWords }: ExpandInput, signal: AbortSignal): Promise<string[]> {
      const persona = await personaOf(actor, of);
      const subject = { ...persona, words: [...persona.words, ...words], excludeWords };
      // When one of them throws, nobody waits for the other.
      const unneeded = new AbortController();
      const either = AbortSignal.any([signal, unneeded.signal]);
      try {
        const [proposals, passages] = await Promise.all([
          proposeInTime(subject, persona.chatModel, either),
          passagesAbout(actor, persona, either),
        ]);
        return await find(subject, { proposals, passages }, signal);
      } finally {
        unneeded.abort();
      }
    },

    /** Throws `agent_not_found`, `anchor_words_not_initialized`. */
    async get(actor: Actor, agentId: string): Promise<AgentAnchors> {
      const { anchorWords, createdAt } = await agents.get(actor, agentId);
      if (Object.keys(anchorWords).length === 0) throw appError('anchor_words_not_initialized');
      return { agentId, anchorWords, createdAt };
    },
  };
}

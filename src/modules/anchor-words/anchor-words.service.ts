import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { AnchorWords } from '#src/domain/agents/drafts.ts';
import type { AnchorWordsPromptInput } from '#src/domain/alignment/anchor-words.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import { appError } from '#src/errors.ts';
import type { AgentsService } from '#src/modules/agents/agents.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { findPassagesAboutAgent } from './agent-passages.ts';
import { type AnchorWordCandidateRanker, proposeAnchorWords } from './anchor-candidates.ts';

/** Timeout of the chat model: short, because the user waits and candidates also come from other sources. */
const proposalTimeoutMs = 20_000;
/**
 * Number of found passages whose phrases become anchor word candidates; passages of lower rank are too far from the
 * topic.
 */
const passageCount = 12;

export type AgentAnchorWords = {
  agentId: string;
  anchorWords: AnchorWords;
  anchorFit: number | null;
  helpfulAnchorWords: string[];
  createdAt: Date;
};

type DraftPersona = { agentName: string; agentPrompt: string; tags: string[]; chatModel: string | null };

export type ExpandAnchorWordsInput = {
  persona: { agentId: string } | DraftPersona;
  words: string[];
  excludeWords: string[];
};

type Persona = DraftPersona & { words: string[]; documentScope: DocumentScope | null };

export type AnchorWordsService = ReturnType<typeof createAnchorWordsService>;

export function createAnchorWordsService(deps: {
  agents: Pick<AgentsService, 'get'>;
  models: Pick<ModelsService, 'chatModelOrDefault' | 'refusalOf'>;
  retrieval: Pick<RetrievalService, 'rankChunks'>;
  chatModel: Pick<ChatModel, 'stream'>;
  findCandidates: AnchorWordCandidateRanker;
  logger: Pick<Logger, 'warn'>;
}) {
  const { agents, models, retrieval, chatModel, findCandidates, logger } = deps;

  async function readPersona(actor: Actor, persona: ExpandAnchorWordsInput['persona']): Promise<Persona> {
    if (!('agentId' in persona)) {
      const { chatModel } = persona;
      const refusal = chatModel === null ? null : await models.refusalOf('chat', chatModel, 'chat_model');
      if (refusal !== null) throw refusal;
      return { ...persona, words: [], documentScope: null };
    }
    const agent = await agents.get(actor, persona.agentId);
    const { agentName, agentPrompt, tags, chatModel, documentScope } = agent;
    return { agentName, agentPrompt, tags, chatModel, documentScope, words: Object.keys(agent.anchorWords) };
  }

  /** Asks the chat model for anchor words. Returns an empty list if the model fails. */
  async function proposals(
    subject: AnchorWordsPromptInput,
    chosenModel: string | null,
    signal: AbortSignal,
  ): Promise<string[]> {
    const model = models.chatModelOrDefault(chosenModel);
    const options = { model, timeoutMs: proposalTimeoutMs, signal };
    return proposeAnchorWords(chatModel, subject, options).catch((error: unknown) => {
      signal.throwIfAborted();
      logger.warn({ err: error, model }, 'asking a chat model for anchor words failed');
      return [];
    });
  }

  async function passagesAbout(actor: Actor, persona: Persona, signal: AbortSignal): Promise<string[]> {
    const passages = await findPassagesAboutAgent(retrieval, actor, persona, signal);
    return passages.slice(0, passageCount).map(({ content }) => content);
  }

  return {
    /**
     * Proposes up to forty new anchor words, best first. Throws `agent_not_found`, `unknown_model`, errors of
     * `Embedder`.
     */
    async expand(actor: Actor, input: ExpandAnchorWordsInput, signal: AbortSignal): Promise<string[]> {
      const { words, excludeWords } = input;
      const persona = await readPersona(actor, input.persona);
      const subject = { ...persona, words: [...persona.words, ...words], excludeWords };
      // If the passage search or the model call throws, aborts whichever of the two still runs.
      const settled = new AbortController();
      const either = AbortSignal.any([signal, settled.signal]);
      try {
        const [proposed, passages] = await Promise.all([
          proposals(subject, persona.chatModel, either),
          passagesAbout(actor, persona, either),
        ]);
        return await findCandidates(subject, { proposals: proposed, passages }, signal);
      } finally {
        settled.abort();
      }
    },

    async get(actor: Actor, agentId: string): Promise<AgentAnchorWords> {
      const { anchorWords, anchorFit, helpfulAnchorWords, createdAt } = await agents.get(actor, agentId);
      if (Object.keys(anchorWords).length === 0) throw appError('anchor_words_not_initialized');
      return { agentId, anchorWords, anchorFit, helpfulAnchorWords, createdAt };
    },
  };
}

import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import {
  containsModelInstructions,
  formatPassageBlocks,
  passageBlockRules,
  type Spotlight,
} from '#src/domain/chat/context-blocks.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';
import { orderByRankNumbers, orderByScore, orderByScoreAndRank } from '#src/domain/retrieval/fusion-and-reranking.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel, Reranker } from '#src/ports/models.ts';

const timeoutMs = { cross_encoder: 10_000, llm: 30_000 } as const;
/** A chat model ranks fifty passages in one prompt if its context window has at least this many tokens. */
const listwiseWindow = 32_000;
/**
 * Number of passages for slow rerankers (about a second per passage) and for chat models with a small context window.
 */
const fewPassages = 10;
/** Number of passages for the packaged reranker (25 to 50 ms of CPU per passage); prompts rarely use more. */
const localPassages = 24;
/**
 * Maximum length of a passage in characters. Cross-encoders read up to 512 tokens; a chat model gets less text, so that
 * it answers faster.
 */
const passageCharacters = { cross_encoder: 2_000, llm: 1_000 } as const;

const rankingSchema = z.strictObject({ ranking: z.array(z.int()) });

const instruction =
  'You order passages by how well they answer the question of the user. Answer with JSON: {"ranking": [numbers of ' +
  'all passages, best first]}. Name each passage exactly once.';

type RankablePassage = { documentName: string; pageNumber: number; content: string };

export type PassageRanker = ReturnType<typeof createPassageRanker>;

export function createPassageRanker(deps: {
  rerankers: { crossEncoder: Reranker; chatProvider: Reranker };
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'reranker' | 'chatModels' | 'find'>;
  spotlight: Spotlight;
}) {
  const { rerankers, chatModel, models, spotlight } = deps;

  type Query<Passage> = { query: string; passages: readonly Passage[]; signal: AbortSignal };

  async function byCrossEncoder<Passage extends RankablePassage>({ query, passages, signal }: Query<Passage>) {
    const { model, isLocal } = (await models.reranker('cross_encoder')) ?? { model: null, isLocal: false };
    const judged = isLocal ? passages.slice(0, localPassages) : passages;
    const documents = judged.map((passage) => rankedText(passage, passageCharacters.cross_encoder));
    const scores = await rerankers.crossEncoder.rerank({ model, query, documents, signal });
    // The packaged model was not trained for reranking, so its scores are combined with the original ranks.
    return isLocal ? orderByScoreAndRank(passages, scores) : orderByScore(passages, scores);
  }

  async function byChatModel<Passage extends RankablePassage>(of: Query<Passage>) {
    const { query, passages, signal } = of;
    const judge = await models.reranker('llm');
    if (judge !== null) {
      const documents = passages.slice(0, fewPassages).map((passage) => rankedText(passage, passageCharacters.llm));
      return orderByScore(
        passages,
        await rerankers.chatProvider.rerank({ model: judge.model, query, documents, signal }),
      );
    }
    const { default: model } = await models.chatModels();
    const window = (await models.find(model))?.contextWindow ?? null;
    const count = window !== null && window < listwiseWindow ? fewPassages : passages.length;
    const ranked = await listwise(model, { ...of, passages: passages.slice(0, count) });
    return [...ranked, ...passages.slice(count)];
  }

  async function listwise<Passage extends RankablePassage>(
    model: string,
    { query, passages, signal }: Query<Passage>,
  ): Promise<Passage[]> {
    const nonce = randomBytes(8).toString('hex');
    const numbered = passages.map(({ documentName, pageNumber, content }, index) => {
      const text = content.slice(0, passageCharacters.llm);
      const addressesModel = containsModelInstructions(`${documentName}\n${text}`);
      return { number: index + 1, documentName, pageNumber, text, addressesModel };
    });
    const { text } = await chatModel.complete({
      model,
      messages: [
        { role: 'system', content: instruction },
        {
          role: 'system',
          content: `${formatPassageBlocks(numbered, nonce, spotlight)}\n\n${passageBlockRules(nonce, spotlight).after}`,
        },
        { role: 'user', content: query },
      ],
      temperature: 0,
      // The answer has about four tokens per passage number; the limit allows twice as many, plus 32.
      maxTokens: 32 + 8 * passages.length,
      responseSchema: { name: 'ranking', schema: z.toJSONSchema(rankingSchema) },
      signal,
    });
    const ranked = orderByRankNumbers(passages, readRanking(text));
    if (ranked === null) throw invalid('it does not name each passage exactly once');
    return ranked;
  }

  /** Returns the passages, best first. Throws errors of the model, and `model_response_invalid`. */
  return <Passage extends RankablePassage>(type: RerankerType, of: Query<Passage>): Promise<Passage[]> => {
    const signal = AbortSignal.any([of.signal, AbortSignal.timeout(timeoutMs[type])]);
    return type === 'llm' ? byChatModel({ ...of, signal }) : byCrossEncoder({ ...of, signal });
  };
}

function rankedText({ documentName, content }: RankablePassage, characters: number): string {
  return `${documentName}\n${content.slice(0, characters)}`;
}

function readRanking(text: string): number[] {
  try {
    return rankingSchema.parse(JSON.parse(text)).ranking;
  } catch {
    throw invalid('it is not the requested JSON');
  }
}

function invalid(reason: string) {
  return appError('model_response_invalid', { detail: `The chat model returned an invalid ranking: ${reason}.` });
}

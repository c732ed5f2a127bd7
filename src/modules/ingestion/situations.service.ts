import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import {
  cleanSituation,
  maxSituationTokens,
  situationExcerpt,
  situationMessages,
  situationOverheadTokens,
  situationPromptVersion,
} from '#src/domain/documents/chunk-document.ts';
import type { Chunk } from '#src/domain/documents/chunking.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { createSituationsRepository, type SituationKey } from './situations.repository.ts';

/** A document as it was converted. */
export type ConvertedBody = { orgId: string; conversionId: string; body: string };

type Passage = Pick<Chunk, 'content' | 'contentOffset' | 'tokenCount'>;

/** What one call of `situate` takes, after which it is the turn of others. */
const SLICE_MS = 30_000;
const PARALLEL_CALLS = 4;
/** Where the provider does not say how much its model takes. */
const ASSUMED_WINDOW = 8_192;
/** Tokenizers differ from ours by less. */
const SAFE_SHARE = 0.75;
/** Each call pays for it, and what is further away says little about a passage. */
const MAX_DOCUMENT_TOKENS = 32_000;
const MIN_DOCUMENT_TOKENS = 200;
/** A second of work at most: the chunks of their documents are hashed for it. */
const ROWS_PER_SWEEP = 1_000;

export type SituationsService = ReturnType<typeof createSituationsService>;

/** What a chat model says of where chunks stand in their documents; nothing where the deployment names no such model. */
export function createSituationsService(deps: {
  db: Knex;
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'find' | 'contextBudget'>;
  tokens: TokenCounter;
  /** Null where chunks are situated by their headings alone. */
  model: string | null;
}) {
  const { chatModel, models, tokens, model } = deps;
  const repository = createSituationsRepository(deps.db);

  const sourceOf = ({ orgId, conversionId }: Pick<ConvertedBody, 'orgId' | 'conversionId'>, ofModel: string) => ({
    orgId,
    conversionId,
    model: ofModel,
    promptVersion: situationPromptVersion,
  });

  /** In characters of the document: the same for all of its passages, so that they share what they see. */
  async function excerptLength(ofModel: string, passages: readonly Passage[]): Promise<number> {
    const window = (await models.find(ofModel))?.contextWindow ?? ASSUMED_WINDOW;
    const largest = passages.reduce((most, { tokenCount }) => Math.max(most, tokenCount), 0);
    const room = Math.floor(window * SAFE_SHARE) - largest - maxSituationTokens - situationOverheadTokens;
    const useful = Math.min(MAX_DOCUMENT_TOKENS, (await models.contextBudget(ofModel)) ?? MAX_DOCUMENT_TOKENS);
    const [length, count] = passages.reduce(
      ([characters, all], { content, tokenCount }) => [characters + content.length, all + tokenCount],
      [0, 0],
    );
    return Math.floor((Math.max(MIN_DOCUMENT_TOKENS, Math.min(room, useful)) * length) / Math.max(1, count));
  }

  return {
    isOn: model !== null,

    /** In the order of the chunks; null where the model has yet to be asked, or there is none. */
    async find(
      of: Pick<ConvertedBody, 'orgId' | 'conversionId'>,
      chunks: readonly Pick<Chunk, 'content'>[],
    ): Promise<(string | null)[]> {
      if (model === null) return chunks.map(() => null);
      const hashes = chunks.map(({ content }) => sha256(content));
      const known = await repository.find(sourceOf(of, model), hashes);
      return hashes.map((hash) => known.get(hash.toString('hex')) ?? null);
    },

    /**
     * Asks the model about the chunks that it was not asked about, for half a minute. Each answer is kept as soon as it
     * is there, so that a run that fails or is killed repeats at most the calls that were under way. Errors as in
     * `Embedder`; then the other calls have ended.
     * @param step.report hears how many of how many different texts are done
     * @returns how many there are, and how many are left
     */
    async situate(
      of: ConvertedBody,
      chunks: readonly Passage[],
      step: { signal: AbortSignal; report: (done: number, total: number) => Promise<void> },
    ): Promise<{ total: number; left: number }> {
      if (model === null) return { total: 0, left: 0 };
      const source = sourceOf(of, model);
      // What is said of equal ones is said of where the first of them stands.
      const passages = new Map<string, Passage>();
      for (const chunk of chunks) {
        const hash = sha256(chunk.content).toString('hex');
        if (!passages.has(hash)) passages.set(hash, chunk);
      }
      const total = passages.size;
      const known = await repository.find(
        source,
        Array.from(passages.keys(), (hash) => Buffer.from(hash, 'hex')),
      );
      const waiting = [...passages].filter(([hash]) => !known.has(hash));
      if (waiting.length === 0) return { total, left: 0 };

      const maxLength = await excerptLength(model, chunks);
      // No document can hold its own hash.
      const nonce = sha256(of.body).toString('hex').slice(0, 24);
      const endsAtMs = performance.now() + SLICE_MS;
      let [next, left, isFailing] = [0, waiting.length, false];

      const askNext = async (): Promise<boolean> => {
        const [hash, passage] = waiting[next] ?? [];
        if (hash === undefined || passage === undefined || isFailing || performance.now() > endsAtMs) return false;
        next += 1;
        const { content, contentOffset } = passage;
        const middle = contentOffset + Math.floor(content.length / 2);
        const document = situationExcerpt(of.body, middle, maxLength);
        const { text } = await chatModel.complete({
          model,
          messages: situationMessages({ document, passage: content }, nonce),
          temperature: 0,
          maxTokens: 2 * maxSituationTokens,
          signal: step.signal,
        });
        await repository.insert({ ...source, chunkSha256: Buffer.from(hash, 'hex') }, cleanSituation(text, { tokens }));
        left -= 1;
        await step.report(total - left, total);
        return true;
      };
      const askOn = async () => {
        try {
          while (await askNext());
        } catch (error) {
          isFailing = true;
          throw error;
        }
      };

      // One alone, so that the others find the beginning of their prompt read already where a provider keeps it.
      await askNext();
      const ended = await Promise.allSettled(Array.from({ length: PARALLEL_CALLS }, askOn));
      step.signal.throwIfAborted();
      for (const result of ended) if (result.status === 'rejected') throw result.reason;
      return { total, left };
    },

    /**
     * Forgets what was said of texts that no chunk has had for a day, a part of the table at a time, in the order of
     * its key.
     * @param after what the call before returned; null at the beginning
     * @returns where to go on; null at the end
     */
    async sweepUnused(after: SituationKey | null): Promise<SituationKey | null> {
      return repository.deleteUnusedAfter(after, ROWS_PER_SWEEP);
    },
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

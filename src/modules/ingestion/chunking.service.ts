import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import {
  buildChunkContextMessages,
  type ChunkingInput,
  chunkContextExcerpt,
  chunkContextOverheadTokens,
  chunkContextPromptVersion,
  cleanChunkContext,
  type IndexedChunk,
  maxChunkContextTokens,
} from '#src/domain/documents/chunk-document.ts';
import { type Chunk, cosineDistance } from '#src/domain/documents/chunking.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { Chunker } from '#src/ports/documents.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { type ChunkContextKey, type ChunkContextSource, createChunkContextsRepository } from './chunks.repository.ts';

/** Number of text windows of semantic chunking that are embedded between two progress reports. */
const BATCH_SIZE = 256;
/**
 * Number of windows that one activity embeds, in about half a minute. Fewer would cost more, because each activity
 * computes all windows of the document again.
 */
const SLICE_SIZE = 8 * BATCH_SIZE;

type ChunkingSource = Pick<ChunkingInput, 'documentName' | 'language' | 'body' | 'pageMap' | 'chunking'>;

export type DocumentChunkingOptions = {
  orgId: string;
  embed: (windows: readonly string[], windowsTotal: number) => Promise<readonly Float32Array[]>;
  signal: AbortSignal;
  report?: (details: unknown) => void;
};

export type DocumentChunkerService = ReturnType<typeof createDocumentChunkerService>;

export function createDocumentChunkerService(deps: {
  chunker: Chunker;
  embeddings: Pick<EmbeddingsService, 'embed' | 'listMissing'>;
  chunkContexts: Pick<ChunkContextsService, 'find'>;
}) {
  const { chunker, embeddings, chunkContexts } = deps;

  return {
    async chunk(source: ChunkingSource, step: DocumentChunkingOptions): Promise<IndexedChunk[]> {
      return chunker.chunk(source, await measureDistances(source, step), step);
    },

    /** Chunks a document. The contextual prefixes contain the contexts that the chat model has written so far. */
    async chunkWithContexts(
      source: ChunkingSource & ConvertedBody,
      step: DocumentChunkingOptions,
    ): Promise<IndexedChunk[]> {
      const distances = await measureDistances(source, step);
      const chunks = await chunker.chunk(source, distances, step);
      const contexts = (await chunkContexts.find(source, chunks)).map((context) => context ?? '');
      if (contexts.every((context) => context === '')) return chunks;
      return chunker.chunk({ ...source, contexts }, distances, step);
    },

    /**
     * Embeds text windows for semantic chunking that are not in the organization's embedding cache: one slice per call,
     * so that an activity stays short for a long document. Each result of the embedding model is cached at once. Throws
     * like `Embedder`.
     * @param step.report is called with the number of embedded windows and of all windows
     * @returns the number of all windows, and of distinct windows left to embed
     */
    async embedWindows(
      source: Pick<ChunkingInput, 'body' | 'chunking'>,
      by: { orgId: string; model: string },
      { signal, report }: { signal: AbortSignal; report: (done: number, total: number) => Promise<void> },
    ): Promise<{ total: number; left: number }> {
      const windows = await chunker.windows(source, { orgId: by.orgId, signal });
      const missing = await embeddings.listMissing(by, windows);
      const total = windows.length;
      let left = missing.length;
      for (const batch of batches(missing.slice(0, SLICE_SIZE))) {
        const before = total - left;
        await embeddings.embed(by, batch, { signal, onProgress: (count) => report(before + count, total) });
        left -= batch.length;
        await report(total - left, total);
      }
      return { total, left };
    },
  };

  async function measureDistances(source: ChunkingSource, step: DocumentChunkingOptions): Promise<number[]> {
    const { orgId, embed, signal, report } = step;
    const windows = await chunker.windows(source, { orgId, signal });
    const distances: number[] = [];
    let windowsEmbedded = 0;
    let previous: Float32Array | undefined;
    for (const batch of batches(windows)) {
      for (const vector of await embed(batch, windows.length)) {
        if (previous !== undefined) distances.push(cosineDistance(previous, vector));
        previous = vector;
      }
      windowsEmbedded += batch.length;
      report?.({ windowsEmbedded, windowsTotal: windows.length });
    }
    return distances;
  }
}

function* batches(texts: readonly string[]): Generator<readonly string[]> {
  for (let start = 0; start < texts.length; start += BATCH_SIZE) yield texts.slice(start, start + BATCH_SIZE);
}

type ConvertedBody = { orgId: string; conversionId: string; body: string };

type Passage = Pick<Chunk, 'content' | 'contentOffset' | 'tokenCount'>;

const SLICE_MS = 30_000;
const PARALLEL_CALLS = 4;
/** Context window, in tokens, that is assumed for models whose provider does not state it. */
const ASSUMED_WINDOW = 8_192;
/** Share of a context window that a prompt may fill by our token count: the model's tokenizer may count more. */
const SAFE_SHARE = 0.75;
/** Maximum document tokens in a context prompt: each call pays for them, and text far from a chunk adds little. */
const MAX_DOCUMENT_TOKENS = 32_000;
const MIN_DOCUMENT_TOKENS = 200;
/**
 * Number of chunk contexts that one call of the sweep checks; the call hashes the chunks of their documents and takes
 * about a second.
 */
const ROWS_PER_SWEEP = 1_000;

export type ChunkContextsService = ReturnType<typeof createChunkContextsService>;

/**
 * Contextual retrieval: a chat model describes where each chunk stands in its document. Disabled if `model` is null.
 */
export function createChunkContextsService(deps: {
  db: Knex;
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'find' | 'contextBudget'>;
  tokens: TokenCounter;
  model: string | null;
}) {
  const { chatModel, models, tokens, model } = deps;
  const repository = createChunkContextsRepository(deps.db);

  return {
    isOn: model !== null,

    /** Cached chunk contexts in chunk order; null where the model has written none or contextual retrieval is off. */
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
     * Generates missing chunk contexts for half a minute. Stores each answer when it arrives, so that a failed or
     * killed run repeats at most the model calls in flight. On an error waits for the other model calls, then throws
     * like `Embedder`.
     * @param step.report is called with the number of distinct chunk texts that have a context and of all distinct
     * texts
     * @returns the number of distinct texts, and how many are left
     */
    async generate(
      of: ConvertedBody,
      chunks: readonly Passage[],
      step: { signal: AbortSignal; report: (done: number, total: number) => Promise<void> },
    ): Promise<{ total: number; left: number }> {
      if (model === null) return { total: 0, left: 0 };
      const source = sourceOf(of, model);
      // Chunks with equal text share one context, written for the first of them.
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
      // The document's hash marks where the document begins and ends in the prompt, because a document cannot contain
      // its own hash.
      const nonce = sha256(of.body).toString('hex').slice(0, 24);
      const endsAtMs = performance.now() + SLICE_MS;
      let [next, left, hasFailed] = [0, waiting.length, false];

      const generateNext = async (): Promise<boolean> => {
        const [hash, passage] = waiting[next] ?? [];
        if (hash === undefined || passage === undefined || hasFailed || performance.now() > endsAtMs) return false;
        next += 1;
        const { content, contentOffset } = passage;
        const middle = contentOffset + Math.floor(content.length / 2);
        const document = chunkContextExcerpt(of.body, middle, maxLength);
        const { text } = await chatModel.complete({
          model,
          messages: buildChunkContextMessages({ document, passage: content }, nonce),
          temperature: 0,
          maxTokens: 2 * maxChunkContextTokens,
          signal: step.signal,
        });
        await repository.insert(
          { ...source, chunkSha256: Buffer.from(hash, 'hex') },
          cleanChunkContext(text, { tokens }),
        );
        left -= 1;
        await step.report(total - left, total);
        return true;
      };
      const generateAll = async () => {
        try {
          while (await generateNext());
        } catch (error) {
          hasFailed = true;
          throw error;
        }
      };

      // The first model call is made alone, so that the later ones find the document in the provider's prompt cache.
      await generateNext();
      const ended = await Promise.allSettled(Array.from({ length: PARALLEL_CALLS }, generateAll));
      step.signal.throwIfAborted();
      for (const result of ended) if (result.status === 'rejected') throw result.reason;
      return { total, left };
    },

    async sweepUnused(after: ChunkContextKey | null): Promise<{ deleted: number; next: ChunkContextKey | null }> {
      return repository.deleteUnusedAfter(after, ROWS_PER_SWEEP);
    },
  };

  /**
   * Computes the length of the document's excerpt in context prompts: one length for all passages, so that neighbouring
   * passages share excerpts.
   */
  async function excerptLength(ofModel: string, passages: readonly Passage[]): Promise<number> {
    const window = (await models.find(ofModel))?.contextWindow ?? ASSUMED_WINDOW;
    const largest = passages.reduce((most, { tokenCount }) => Math.max(most, tokenCount), 0);
    const room = Math.floor(window * SAFE_SHARE) - largest - maxChunkContextTokens - chunkContextOverheadTokens;
    const useful = Math.min(MAX_DOCUMENT_TOKENS, (await models.contextBudget(ofModel)) ?? MAX_DOCUMENT_TOKENS);
    const [length, count] = passages.reduce(
      ([characters, all], { content, tokenCount }) => [characters + content.length, all + tokenCount],
      [0, 0],
    );
    return Math.floor((Math.max(MIN_DOCUMENT_TOKENS, Math.min(room, useful)) * length) / Math.max(1, count));
  }
}

function sourceOf(
  { orgId, conversionId }: Pick<ConvertedBody, 'orgId' | 'conversionId'>,
  model: string,
): ChunkContextSource {
  return { orgId, conversionId, model, promptVersion: chunkContextPromptVersion };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

import {
  type BatchLimits,
  embeddingSpace,
  halves,
  planBatches,
  poolVectors,
  readEmbeddingSpace,
} from '#src/domain/documents/embedding.ts';
import type { Embedder, Embedders, EmbedOptions } from '#src/ports/models.ts';
import { type CallPacing, createCallPacing } from './call-pacing.ts';
import { createEmbeddingCall } from './embedding-call.ts';
import type { Endpoint } from './openai-client.ts';

/** Calls of about a second on two cores: small enough to be repeated, large enough for what a call costs. */
const firstLimits: BatchLimits = { texts: 64, tokens: 16_000 };
/** Bulk calls at once in this process: one computes while the next is on its way. */
const maxBulkCalls = 4;
/** A service that refuses even such a piece refuses it for another reason than its length. */
const shortestPiece = 64;

type Numbered = { index: number; vector: Float32Array };

type EmbedderSettings = Endpoint & {
  /** Of one call. */
  timeoutMs?: number;
  /** Of any tokenizer: it decides what shares a call. */
  estimateTokens: (text: string) => number;
};

/** All embedding models of one endpoint. They share its pace: a service that asks one for a pause asks them all. */
export function createEmbedders(settings: EmbedderSettings): Embedders {
  const pacing = createCallPacing(maxBulkCalls);
  const made = new Map<string, Embedder>();
  return {
    of(id) {
      const embedder = made.get(id) ?? createEmbedder({ ...settings, ...readEmbeddingSpace(id), pacing });
      made.set(id, embedder);
      return embedder;
    },
  };
}

/**
 * Embeddings over the OpenAI protocol. Texts are sorted by length into calls; a call that is refused as too large is
 * halved, and later calls are made as small as what went through. Retries belong to the callers.
 */
export function createEmbedder(
  options: EmbedderSettings & { model: string; dimensions?: number | null | undefined; pacing?: CallPacing },
): Embedder {
  const { estimateTokens, model, dimensions, pacing = createCallPacing(maxBulkCalls) } = options;
  const call = createEmbeddingCall(options);
  let limits = firstLimits;

  type Caller = { isBulk: boolean; signal: AbortSignal };
  type Text = { index: number; text: string; tokens: number };

  async function embedBatch(
    batch: readonly Text[],
    caller: Caller,
  ): Promise<{ vectors: Numbered[]; isWhole: boolean }> {
    const texts = batch.map(({ text }) => text);
    const answer = await pacing.run(() => call(texts, caller.signal), caller);
    if ('vectors' in answer) {
      return { vectors: batch.flatMap(({ index }, place) => numbered(index, answer.vectors[place])), isWhole: true };
    }
    const [only, second] = batch;
    if (second !== undefined) return { vectors: await embedHalves(batch, caller), isWhole: false };
    if (only === undefined || only.text.length < 2 * shortestPiece) throw answer.tooLarge;
    return { vectors: numbered(only.index, await embedInPieces(only, caller)), isWhole: false };
  }

  async function embedHalves(batch: readonly Text[], caller: Caller): Promise<Numbered[]> {
    const middle = Math.ceil(batch.length / 2);
    const first = await embedBatch(batch.slice(0, middle), caller);
    const second = await embedBatch(batch.slice(middle), caller);
    // One long text says nothing about how much fits into a call; two halves that pass do.
    if (first.isWhole && second.isWhole) {
      const tokens = batch.reduce((sum, text) => sum + text.tokens, 0);
      limits = { texts: Math.min(limits.texts, middle), tokens: Math.min(limits.tokens, Math.ceil(tokens / 2)) };
    }
    return [...first.vectors, ...second.vectors];
  }

  async function embedInPieces({ text }: Text, caller: Caller): Promise<Float32Array> {
    const parts = [];
    for (const piece of halves(text)) {
      const weight = estimateTokens(piece);
      const { vectors } = await embedBatch([{ index: 0, text: piece, tokens: weight }], caller);
      for (const { vector } of vectors) parts.push({ vector, weight });
    }
    return poolVectors(parts);
  }

  async function embed(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    const { isBulk = false, onVectors } = options;
    const failed = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal;
    const measured = texts.map((text, index) => ({ index, text, tokens: estimateTokens(text) }));
    const batches = planBatches(
      measured.map(({ tokens }) => tokens),
      limits,
    );
    const embedded: Float32Array[] = new Array(texts.length);

    const run = async (indexes: readonly number[]) => {
      const batch = indexes.flatMap((index) => measured[index] ?? []);
      const { vectors } = await embedBatch(batch, { isBulk, signal });
      for (const { index, vector } of vectors) embedded[index] = vector;
      await onVectors?.(vectors);
    };
    const settled = await Promise.allSettled(
      batches.map((batch) =>
        run(batch).catch((error: unknown) => {
          failed.abort(error);
          throw error;
        }),
      ),
    );
    options.signal?.throwIfAborted();
    if (settled.some(({ status }) => status === 'rejected')) throw failed.signal.reason;
    return embedded;
  }

  return { model: embeddingSpace(model, dimensions ?? null), embed };
}

function numbered(index: number, vector: Float32Array | undefined): Numbered[] {
  return vector === undefined ? [] : [{ index, vector }];
}

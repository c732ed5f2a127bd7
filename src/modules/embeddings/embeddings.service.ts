import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { appError } from '#src/errors.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import { type CachedEmbeddingKey, createEmbeddingsRepository } from './embeddings.model.ts';

/** Number of text hashes per SQL statement, which keeps the statement at a few megabytes. */
const HASHES_PER_QUERY = 10_000;
/** Number of cached vectors that the sweeper checks in at most a second, so as not to delay its other tasks. */
const ROWS_PER_SWEEP = 5_000;

export type EmbeddingsService = ReturnType<typeof createEmbeddingsService>;

export function createEmbeddingsService(deps: { db: Knex; embedders: EmbedderFactory }) {
  const { embedders } = deps;
  const repository = createEmbeddingsRepository(deps.db);
  const dimensionsOf = new Map<string, number>();

  async function requireDimensions(model: string, length: number): Promise<void> {
    const dimensions = dimensionsOf.get(model) ?? (await repository.fixDimensions(model, length));
    dimensionsOf.set(model, dimensions);
    if (length === dimensions) return;
    throw appError('embedding_model_changed', {
      detail: `The embedding model ${model} returned vectors of ${length} dimensions, but its stored vectors have ${dimensions}. Give a changed model another name.`,
    });
  }

  return {
    hash,

    /**
     * Embeds the texts that are not cached, and returns the vectors of all texts in order. Caches each batch at once,
     * so that a killed run repeats only the model calls in flight. `onProgress` receives the number of embedded texts
     * after each call.
     */
    async embed(
      { orgId, model }: { orgId: string; model: string },
      texts: readonly string[],
      { onProgress, ...options }: { signal: AbortSignal; onProgress?: (count: number) => Promise<void> },
    ): Promise<Float32Array[]> {
      const hashes = texts.map(hash);
      const known = await repository.find(orgId, model, hashes);
      const missing = new Map<string, { textSha256: Buffer; text: string }>();
      texts.forEach((text, index) => {
        const textSha256 = hashes[index];
        if (textSha256 === undefined) return;
        const key = textSha256.toString('hex');
        if (!known.has(key)) missing.set(key, { textSha256, text });
      });

      const uncached = [...missing.values()];
      if (uncached.length > 0) {
        await embedders.of(model).embed(
          uncached.map(({ text }) => text),
          {
            ...options,
            isBulk: true,
            onVectors: async (vectors) => {
              const found = vectors.flatMap(({ index, vector }) => {
                const textSha256 = uncached[index]?.textSha256;
                return textSha256 === undefined ? [] : [{ textSha256, vector }];
              });
              for (const { vector } of found) await requireDimensions(model, vector.length);
              await repository.insert(orgId, model, found);
              for (const { textSha256, vector } of found) known.set(textSha256.toString('hex'), vector);
              await onProgress?.(hashes.filter((textSha256) => known.has(textSha256.toString('hex'))).length);
            },
          },
        );
      }
      return hashes.map((textSha256) => {
        const vector = known.get(textSha256.toString('hex'));
        if (vector === undefined)
          throw appError('model_response_invalid', {
            detail: 'The embedding model returned fewer vectors than texts.',
          });
        return vector;
      });
    },

    findCached: ({ orgId, model }: { orgId: string; model: string }, hashes: readonly Buffer[]) =>
      repository.find(orgId, model, hashes),

    async listMissing({ orgId, model }: { orgId: string; model: string }, texts: readonly string[]): Promise<string[]> {
      const byHash = new Map(texts.map((text) => [hash(text).toString('hex'), text]));
      const hashes = Array.from(byHash.keys(), (hex) => Buffer.from(hex, 'hex'));
      for (let start = 0; start < hashes.length; start += HASHES_PER_QUERY) {
        const known = await repository.listCached(orgId, model, hashes.slice(start, start + HASHES_PER_QUERY));
        for (const textSha256 of known) byHash.delete(textSha256.toString('hex'));
      }
      return [...byHash.values()];
    },

    async forgetUnused(trx: Knex, orgId: string, hashes: readonly Buffer[]): Promise<void> {
      await createEmbeddingsRepository(trx).deleteUnusedOf(orgId, hashes);
    },

    async sweepUnused(after: CachedEmbeddingKey | null): Promise<{ deleted: number; next: CachedEmbeddingKey | null }> {
      return repository.deleteUnusedAfter(after, ROWS_PER_SWEEP);
    },
  };
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { appError } from '#src/errors.ts';
import type { Embedders } from '#src/ports/models.ts';
import { createEmbeddingsRepository, type EmbeddingKey } from './embeddings.repository.ts';

/** Some megabytes of a statement. */
const HASHES_PER_LOOK = 10_000;
/** A second of work at most: other sweeps wait for it. */
const ROWS_PER_SWEEP = 5_000;

export type EmbeddingsService = ReturnType<typeof createEmbeddingsService>;

/** Embeds what an organization keeps, each text once for each model. */
export function createEmbeddingsService(deps: { db: Knex; embedders: Embedders }) {
  const { embedders } = deps;
  const repository = createEmbeddingsRepository(deps.db);
  const dimensionsOf = new Map<string, number>();

  async function requireDimensions(model: string, length: number): Promise<void> {
    const dimensions = dimensionsOf.get(model) ?? (await repository.fixDimensions(model, length));
    dimensionsOf.set(model, dimensions);
    if (length === dimensions) return;
    throw appError('embedding_model_changed', {
      detail: `${model} gave vectors of ${length} dimensions, and those that are stored have ${dimensions}. A model that changed needs another name.`,
    });
  }

  return {
    /** By which a text is known in the cache. */
    hash,

    /**
     * One vector of the model for each text, in order. Vectors are kept as soon as they are there, so that a run that
     * fails or is killed repeats at most the calls that were under way. Errors as in `Embedder`.
     * @param options.onProgress hears after each call of the model how many of the texts have their vectors
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

      const asked = [...missing.values()];
      if (asked.length > 0) {
        await embedders.of(model).embed(
          asked.map(({ text }) => text),
          {
            ...options,
            isBulk: true,
            onVectors: async (vectors) => {
              const found = vectors.flatMap(({ index, vector }) => {
                const textSha256 = asked[index]?.textSha256;
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
        if (vector === undefined) throw appError('model_response_invalid', { detail: 'A vector is missing.' });
        return vector;
      });
    },

    /** Without asking the model. @returns the vectors that are kept, by the hash of their text in hex */
    findKnown: ({ orgId, model }: { orgId: string; model: string }, hashes: readonly Buffer[]) =>
      repository.find(orgId, model, hashes),

    /** @returns those of the texts that the organization has no vector of, each once, in order */
    async listMissing({ orgId, model }: { orgId: string; model: string }, texts: readonly string[]): Promise<string[]> {
      const byHash = new Map(texts.map((text) => [hash(text).toString('hex'), text]));
      const hashes = Array.from(byHash.keys(), (hex) => Buffer.from(hex, 'hex'));
      for (let start = 0; start < hashes.length; start += HASHES_PER_LOOK) {
        const known = await repository.listKnown(orgId, model, hashes.slice(start, start + HASHES_PER_LOOK));
        for (const textSha256 of known) byHash.delete(textSha256.toString('hex'));
      }
      return [...byHash.values()];
    },

    /** Forgets those of these texts that no chunk of the organization has. */
    async forgetUnused(trx: Knex, orgId: string, hashes: readonly Buffer[]): Promise<void> {
      await createEmbeddingsRepository(trx).deleteUnusedOf(orgId, hashes);
    },

    /**
     * Forgets embeddings that no chunk has used for a day, a part of the table at a time, in the order of its key. An
     * organization with a document that has yet to be cut keeps them until then.
     * @param after what the call before returned; null at the beginning
     * @returns where to go on; null at the end
     */
    async sweepUnused(after: EmbeddingKey | null): Promise<EmbeddingKey | null> {
      return repository.deleteUnusedAfter(after, ROWS_PER_SWEEP);
    },
  };
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

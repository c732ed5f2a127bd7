import { createHash } from 'node:crypto';
import { appError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import { createEmbeddingsRepository } from './embeddings.repository.ts';

export type EmbeddingsService = ReturnType<typeof createEmbeddingsService>;

/** Embeds what an organization keeps, each text once for each model. */
export function createEmbeddingsService(deps: { db: Db; embedder: Embedder }) {
  const { embedder } = deps;
  const { model } = embedder;
  const repository = createEmbeddingsRepository(deps.db);
  let dimensions: number | undefined;

  async function requireDimensions(length: number): Promise<void> {
    dimensions ??= await repository.fixDimensions(model, length);
    if (length === dimensions) return;
    throw appError('model_response_invalid', {
      detail: `${model} gave vectors of ${length} dimensions, and those that are stored have ${dimensions}. A model that changed needs another name in EMBEDDING_MODEL.`,
    });
  }

  return {
    model,

    /**
     * One vector for each text, in order. Vectors are kept as soon as they are there, so that a run that fails or is
     * killed repeats at most the calls that were under way. Errors as in `Embedder`.
     */
    async embed(orgId: string, texts: readonly string[], options: { signal: AbortSignal }): Promise<Float32Array[]> {
      const hashes = texts.map(sha256);
      const known = await repository.find(orgId, model, hashes);
      const missing = new Map<string, { hash: Buffer; text: string }>();
      texts.forEach((text, index) => {
        const hash = hashes[index];
        if (hash === undefined) return;
        const key = hash.toString('hex');
        if (!known.has(key)) missing.set(key, { hash, text });
      });

      const asked = [...missing.values()];
      if (asked.length > 0) {
        await embedder.embed(
          asked.map(({ text }) => text),
          {
            ...options,
            isBulk: true,
            onVectors: async (vectors) => {
              const found = vectors.flatMap(({ index, vector }) => {
                const hash = asked[index]?.hash;
                return hash === undefined ? [] : [{ textSha256: hash, vector }];
              });
              for (const { vector } of found) await requireDimensions(vector.length);
              await repository.insert(orgId, model, found);
              for (const { textSha256, vector } of found) known.set(textSha256.toString('hex'), vector);
            },
          },
        );
      }
      return hashes.map((hash) => {
        const vector = known.get(hash.toString('hex'));
        if (vector === undefined) throw appError('model_response_invalid', { detail: 'A vector is missing.' });
        return vector;
      });
    },
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

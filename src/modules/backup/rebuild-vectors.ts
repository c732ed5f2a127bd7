import type { Knex } from 'knex';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import { createProgress } from './progress.ts';
import { createVectorRebuildRepository } from './rebuild-vectors.repository.ts';

const GENERATIONS_AT_ONCE = 200;
const CHUNKS_AT_ONCE = 500;

/**
 * Gives the vector store what it lacks of the active generations, from the embeddings that Postgres keeps of every
 * chunk: no model is asked. Nobody else may work meanwhile.
 * @returns how many generations were rebuilt, and how many lack embeddings: those need `audit-stores --repair`
 */
export async function rebuildVectors(
  deps: {
    db: Knex;
    vectors: Pick<VectorStore, 'countGenerations' | 'upsert' | 'publish'>;
    embeddings: Pick<EmbeddingsService, 'findCached'>;
  },
  note: (line: string) => void,
): Promise<{ rebuilt: number; incomplete: number }> {
  const { vectors, embeddings } = deps;
  const repository = createVectorRebuildRepository(deps.db);
  const progress = createProgress(note, (count) => `Vectors: ${count} documents looked at …`);

  /** @returns whether every chunk has its vector now */
  async function rebuild(of: PublishedGeneration): Promise<boolean> {
    const { orgId, documentId, generation, model } = of;
    let isWhole = true;
    for (let after = -1; ; ) {
      const chunks = await repository.listChunks(of, after, CHUNKS_AT_ONCE);
      const hashes = chunks.flatMap(({ textSha256 }) => textSha256 ?? []);
      const known = await embeddings.findCached({ orgId, model }, hashes);
      const points = chunks.flatMap(({ id, textSha256 }) => {
        const vector = textSha256 === null ? undefined : known.get(textSha256.toString('hex'));
        return vector === undefined ? [] : [{ id, documentId, generation, vector }];
      });
      if (points.length < chunks.length) isWhole = false;
      if (points.length > 0) await vectors.upsert({ orgId, model, points });
      const last = chunks.at(-1);
      if (last === undefined || chunks.length < CHUNKS_AT_ONCE) break;
      after = last.chunkIndex;
    }
    await vectors.publish(of);
    return isWhole;
  }

  const counts = { rebuilt: 0, incomplete: 0 };
  for (let after: string | null = null; ; ) {
    const page = await repository.listActive(after, GENERATIONS_AT_ONCE);
    const stored = await vectors.countGenerations(page);
    for (const [index, { chunksTotal, ...of }] of page.entries()) {
      progress.add(1);
      if (stored[index] === chunksTotal) continue;
      counts[(await rebuild(of)) ? 'rebuilt' : 'incomplete'] += 1;
    }
    after = page.at(-1)?.documentId ?? null;
    if (after === null || page.length < GENERATIONS_AT_ONCE) return counts;
  }
}

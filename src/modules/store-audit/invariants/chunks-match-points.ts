import type { Row } from '#src/adapters/postgres/columns.ts';
import { pick, rows } from '#src/adapters/postgres/shapes.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import type { InvariantCheck, InvariantDeps } from '../invariants.model.ts';
import { createStoreInspector } from '../store-inspector.ts';
import { eachFinding } from './findings.ts';
import { pagesOf } from './rows.ts';

/** I2: readers see a document whole, and search finds all of it. */
export const chunksMatchPoints: InvariantCheck = {
  invariant: 'I2',
  title: 'active chunks are 0..n-1 once each, and the ids of their vectors are theirs',
  async run(deps, patience, found) {
    const { inspect } = createStoreInspector(deps);
    const checked = await eachFinding(inspect, 'documents', patience, ({ kind, orgId, id, detail }) => {
      if (kind === 'broken_chunks' || kind === 'missing_points') found({ orgId, documentId: id, detail });
    });
    await eachChunkWithoutPoint(deps, ({ id, orgId, documentId }) =>
      found({ orgId, documentId, detail: `Chunk ${id} has no vector.` }),
    );
    return checked;
  },
};

const activeChunk = pick(ChunkModel, 'id', 'orgId', 'documentId');

type Chunk = Row<typeof activeChunk>;

const activeChunks = `
  select c.id, c.org_id, c.document_id
  from chunks c
  join documents d on d.org_id = c.org_id and d.id = c.document_id and d.active_generation = c.generation
  where d.deleted_at is null`;

/** Where the numbers are equal, and every chunk has its vector, none is left that could be a stranger's. */
async function eachChunkWithoutPoint({ db, vectors }: InvariantDeps, see: (chunk: Chunk) => void): Promise<void> {
  for await (const chunks of pagesOf(db, activeChunk, `${activeChunks} and c.id > :after`)) {
    const suspects = await withoutPoint(vectors, chunks);
    // A generation that was collected meanwhile misses nothing.
    const still = await rows(db, activeChunk, `${activeChunks} and c.id = any (?::uuid[])`, [
      suspects.map((chunk) => chunk.id),
    ]);
    for (const chunk of still) see(chunk);
  }
}

async function withoutPoint(vectors: InvariantDeps['vectors'], chunks: readonly Chunk[]): Promise<Chunk[]> {
  const missing: Chunk[] = [];
  for (const orgId of new Set(chunks.map((chunk) => chunk.orgId))) {
    const own = chunks.filter((chunk) => chunk.orgId === orgId);
    const stored = await vectors.findExisting({ orgId, chunkIds: own.map((chunk) => chunk.id) });
    missing.push(...own.filter((chunk) => !stored.has(chunk.id)));
  }
  return missing;
}

// `npm run bench:search [-- <chunks>]` measures filtered vector search, hybrid search, and full-text search beside
// Qdrant's, on a generated corpus.
import { cpus } from 'node:os';
import { createPgVectorStore } from '../src/adapters/vectors/pgvector.ts';
import { generateCorpus } from './search/corpus.ts';
import { measureFilteredNeighbours } from './search/filtered-neighbours.ts';
import { measureHybrid } from './search/hybrid.ts';
import { loadCorpus } from './search/load.ts';
import { startServices } from './search/services.ts';
import type { SearchSubject } from './search/subject.ts';
import { measureWords } from './search/words.ts';

const chunkCount = Number(process.argv[2] ?? 100_000);
const queryCount = 50;

const { db, qdrant, stop } = await startServices();
try {
  const corpus = generateCorpus(1);
  const pgvector = createPgVectorStore(db);
  const queries = corpus.queries(queryCount);
  const orgId = await loadCorpus(db, [pgvector, qdrant], corpus.documents(chunkCount));
  await pgvector.maintain();
  await db.raw('vacuum analyze');

  const on = (storeName: string, vectors: SearchSubject['vectors']): SearchSubject => {
    return { db, orgId, chunkCount, queries, storeName, vectors };
  };
  const subjects = [on('pgvector', pgvector), on("Qdrant's engine", qdrant)];
  for (const subject of subjects) await print(measureFilteredNeighbours(subject));
  for (const subject of subjects) await print(measureHybrid(subject));
  await print(measureWords(on('pgvector', pgvector)));

  const { rows } = await db.raw<{ rows: { version: string }[] }>(
    `select 'Postgres ' || current_setting('server_version') || ', pgvector ' || extversion as version
     from pg_extension where extname = 'vector'`,
  );
  console.log(`\n${rows[0]?.version}, node ${process.versions.node}, ${cpus()[0]?.model}, ${cpus().length} cores`);
} finally {
  await stop();
}

async function print(measured: Promise<string[]>): Promise<void> {
  console.log(['', ...(await measured)].join('\n'));
}

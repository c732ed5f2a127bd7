import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createTextAnalyzer } from '../../src/adapters/text/text-analyzer.ts';
import { contentStems } from '../../src/domain/text/words.ts';
import { createWordSearchRepository } from '../../src/modules/retrieval/word-search.repository.ts';
import { median } from '../median.ts';
import { average } from '../retrieval/bootstrap.ts';
import { readCranfield } from '../retrieval/cranfield.ts';
import { ndcg } from '../retrieval/metrics.ts';
import { type CorpusDocument, keyOf } from './corpus.ts';
import { chunkIdOf, loadCorpus } from './load.ts';
import { startQdrantWords, type WordedChunk } from './qdrant-words.ts';
import type { SearchSubject } from './subject.ts';

const limit = 50;
const rounds = 3;

/** Compares the product's full-text search with Qdrant's sparse vectors: latency, and ranking quality on Cranfield. */
export async function measureWords(subject: SearchSubject): Promise<string[]> {
  const { db, orgId, chunkCount, queries } = subject;
  const { searchWords } = createWordSearchRepository(db);
  const exact = createWordSearchRepository(db, { postings: 100_000_000, candidatesPerHit: 1_000, documents: 0 });
  const chunks = await readChunks(db, orgId);
  const qdrant = await startQdrantWords(chunks, averageLength(chunks));
  const rows: string[] = [];
  try {
    for (const percent of [10, 100] as const) {
      const acl = [keyOf(percent)];
      const ours: number[] = [];
      const theirs: number[] = [];
      const overlaps: number[] = [];
      for (let round = 0; round < rounds; round += 1) {
        for (const { terms } of queries) {
          const query = { readable: { orgId, acl }, terms, limit };
          const start = performance.now();
          const hits = await searchWords(query);
          ours.push(performance.now() - start);
          theirs.push((await qdrant.search({ terms, acl, limit })).ms);
          if (round > 0) continue;
          const best = new Set((await exact.searchWords(query)).slice(0, 10).map((hit) => hit.chunkId));
          if (best.size > 0) overlaps.push(hits.slice(0, 10).filter((hit) => best.has(hit.chunkId)).length / best.size);
        }
      }
      const figures = [median(ours).toFixed(1), median(theirs).toFixed(1), average(overlaps).toFixed(3)];
      rows.push(`| ${percent} % | ${figures.join(' | ')} |`);
    }
  } finally {
    await qdrant.stop();
  }
  return [
    `Words: ${limit} hits of ${chunkCount} chunks, ${queries.length} queries, ${rounds} rounds, medians`,
    '',
    "| readable | ours, ms | Qdrant's engine alone, ms | ours has of the best ten |",
    '|---|---|---|---|',
    ...rows,
    '',
    await measureCranfield(db),
  ];
}

async function measureCranfield(db: Knex): Promise<string> {
  const analyze = createTextAnalyzer();
  const cranfield = readCranfield();
  const documents = cranfield.documents.map(({ title, text }): CorpusDocument => {
    const words = contentStems(analyze(`${title}\n${text}`));
    return { id: uuidv7(), acl: [keyOf(100)], chunks: [{ words, vector: new Float32Array() }] };
  });
  const chunks = documents.flatMap(({ id, acl, chunks }) =>
    chunks.map(({ words }, index) => ({ id: chunkIdOf(id, index), acl, words })),
  );
  const numberOf = new Map(chunks.map(({ id }, index) => [id, cranfield.documents[index]?.id ?? '']));
  const orgId = await loadCorpus(db, [], documents);
  const { searchWords } = createWordSearchRepository(db);
  const qdrant = await startQdrantWords(chunks, averageLength(chunks));
  const ours: number[] = [];
  const theirs: number[] = [];
  try {
    for (const { text, relevant } of cranfield.queries) {
      const query = { terms: contentStems(analyze(text)), acl: [keyOf(100)], limit: 10 };
      const gain = (ids: readonly string[]) =>
        ndcg(
          ids.map((id) => numberOf.get(id) ?? ''),
          relevant,
          10,
        );
      const hits = await searchWords({ readable: { orgId, acl: query.acl }, ...query });
      ours.push(gain(hits.map((hit) => hit.chunkId)));
      theirs.push(gain((await qdrant.search(query)).ids));
    }
  } finally {
    await qdrant.stop();
  }
  return `Cranfield, nDCG@10: ours ${average(ours).toFixed(4)}, Qdrant's ${average(theirs).toFixed(4)}.`;
}

async function readChunks(db: Knex, orgId: string): Promise<WordedChunk[]> {
  const rows: { id: string; acl: string[]; content: string }[] = await db('chunks as c')
    .join('documents as d', 'd.id', 'c.documentId')
    .where('c.orgId', orgId)
    .select('c.id', 'd.acl', 'c.content');
  return rows.map(({ id, acl, content }) => ({ id, acl, words: content.split(' ') }));
}

function averageLength(chunks: readonly WordedChunk[]): number {
  return average(chunks.map((chunk) => chunk.words.length));
}

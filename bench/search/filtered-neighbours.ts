import type { Knex } from 'knex';
import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { keyOf, selectivities } from './corpus.ts';
import { model } from './load.ts';
import type { SearchSubject } from './subject.ts';

const limit = 10;
const rounds = roundsOf(5);

/**
 * P5: recall and latency of vector search under access filters of all selectivities, compared with unfiltered search.
 */
export async function measureFilteredNeighbours(subject: SearchSubject): Promise<string[]> {
  const { db, vectors, queries, orgId, storeName } = subject;
  const ask = (percent: number, vector: Float32Array) =>
    vectors.search({ readable: { orgId, acl: [keyOf(percent)] }, model, vector, limit, minSimilarity: -1 });

  const found = new Map<number, number>();
  for (const percent of selectivities) {
    let hits = 0;
    let right = 0;
    for (const { vector } of queries) {
      const exact = await findExactNeighbours(db, { orgId, accessKey: keyOf(percent), vector });
      hits += (await ask(percent, vector)).filter((hit) => exact.has(hit.chunkId)).length;
      right += exact.size;
    }
    found.set(percent, hits / right);
  }
  const times = new Map<number, number[]>(selectivities.map((percent) => [percent, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const { vector } of queries) {
      for (const percent of selectivities) {
        const start = performance.now();
        await ask(percent, vector);
        times.get(percent)?.push(performance.now() - start);
      }
    }
  }
  const unfiltered = median(times.get(100) ?? []);
  const lowest = Math.min(...found.values());
  const what = `filtered vector search on ${storeName}, ${subject.chunkCount} chunks`;
  report({ goal: 'P5', what: `${what}: lowest recall@10 of 1, 3, 10, 40 and 100 %`, rounds: lowest, atLeast: 0.99 });
  const [slowest = 0, percent] =
    selectivities
      .filter((percent) => percent !== 100)
      .map((percent) => [median(times.get(percent) ?? []), percent] as const)
      .toSorted(([a], [b]) => b - a)[0] ?? [];
  report({
    ...{ goal: 'P5', what: `${what}: slowest p50, at ${percent} %`, unit: 'ms', rounds: slowest },
    ...{ peer: 'the unfiltered search', ratios: slowest / unfiltered, atMost: 1.5 },
  });
  return [
    `P5 on ${storeName}: ${limit} nearest of ${subject.chunkCount} chunks, ${queries.length} queries, ${rounds} rounds, medians`,
    '',
    '| readable | recall@10 | ms | of the time for all |',
    '|---|---|---|---|',
    ...selectivities.map((percent) => {
      const ms = median(times.get(percent) ?? []);
      const recall = (found.get(percent) ?? 0).toFixed(4);
      return `| ${percent} % | ${recall} | ${ms.toFixed(1)} | ${(ms / unfiltered).toFixed(2)} |`;
    }),
    '',
    'Goals: recall at least 0.99, time at most 1.5 of that for all.',
  ];
}

/** Compares all readable vectors without the product's query, so that a fault in it shows. */
async function findExactNeighbours(
  db: Knex,
  { orgId, accessKey, vector }: { orgId: string; accessKey: string; vector: Float32Array },
): Promise<Set<string>> {
  const { rows } = await db.raw<{ rows: { chunk_id: string }[] }>(
    `select v.chunk_id from chunk_vectors v join documents d on d.id = v.document_id
     where v.org_id = ? and d.acl @> array[?] order by v.embedding <=> ?::vector limit ${limit}`,
    [orgId, accessKey, `[${vector.join(',')}]`],
  );
  return new Set(rows.map((row) => row.chunk_id));
}

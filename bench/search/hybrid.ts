import type { Knex } from 'knex';
import type { Actor } from '../../src/domain/access/visibility.ts';
import { createGroupSearch } from '../../src/modules/retrieval/group-search.ts';
import { createRetrievalRepository } from '../../src/modules/retrieval/retrieval.repository.ts';
import { createWordSearchRepository } from '../../src/modules/retrieval/word-search.repository.ts';
import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { type CorpusQuery, keyOf } from './corpus.ts';
import { model } from './load.ts';
import type { SearchSubject } from './subject.ts';

const limit = 50;
const rounds = roundsOf(5);
const goals = { timesVectors: 2.5, timesFaster: 8 };

type Way = 'vectors' | 'words' | 'hybrid' | 'rankCd';

/**
 * P6: overhead of full-text search, fusion and loading texts over the bare vector query, and the time of an any-word
 * search ranked by `ts_rank_cd`.
 */
export async function measureHybrid(subject: SearchSubject): Promise<string[]> {
  const { db, orgId, queries, vectors } = subject;
  const acl = [keyOf(100)];
  const actor: Actor = {
    userId: '100',
    orgId,
    teamIds: [],
    teamAdminOf: [],
    openTeamIds: [],
    isOrgAdmin: false,
    contributesToOrganization: false,
  };
  const { searchWords } = createWordSearchRepository(db);
  await indexLexemes(db);

  const ways: Record<Way, (query: CorpusQuery) => Promise<unknown>> = {
    vectors: ({ vector }) => vectors.search({ readable: { orgId, acl }, model, vector, limit, minSimilarity: 0.25 }),
    words: ({ terms }) => searchWords({ readable: { orgId, acl }, terms, limit }),
    hybrid: (query) =>
      searchOf(subject, query)(actor, { orgId, acl }, { query: '', signal: new AbortController().signal }),
    rankCd: ({ terms }) => searchByRankCd(db, { orgId, acl, terms }),
  };
  const times: Record<Way, number[]> = { vectors: [], words: [], hybrid: [], rankCd: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const query of queries) {
      for (const way of ['vectors', 'words', 'hybrid', 'rankCd'] as const) {
        // `ts_rank_cd` is an order of magnitude slower, so one round is enough.
        if (way === 'rankCd' && round > 0) continue;
        const start = performance.now();
        await ways[way](query);
        times[way].push(performance.now() - start);
      }
    }
  }
  const ms = (way: Way) => median(times[way]);
  const what = `hybrid search on ${subject.storeName}, ${subject.chunkCount} chunks`;
  report({
    ...{ goal: 'P6', what, unit: 'ms', rounds: ms('hybrid'), peer: 'the bare vector query' },
    ...{ ratios: ms('hybrid') / ms('vectors'), atMost: goals.timesVectors },
  });
  report({
    ...{ goal: 'P6', what, unit: 'ms', rounds: ms('hybrid'), peer: 'any of the words by ts_rank_cd' },
    ...{ ratios: ms('rankCd') / ms('hybrid'), atLeast: goals.timesFaster },
  });
  const row = (name: string, way: Way) =>
    `| ${name} | ${ms(way).toFixed(1)} | ${(ms(way) / ms('vectors')).toFixed(2)} |`;
  return [
    `P6 on ${subject.storeName}: ${subject.chunkCount} chunks, ${queries.length} queries, ${rounds} rounds, medians`,
    '',
    '| | ms | of the vector query |',
    '|---|---|---|',
    row(`vector query, ${limit} hits`, 'vectors'),
    row(`words, ${limit} hits`, 'words'),
    row('hybrid: both, merged, checked, with texts', 'hybrid'),
    row(`any of the words by ts_rank_cd, ${limit} hits`, 'rankCd'),
    '',
    `Hybrid is ${(ms('rankCd') / ms('hybrid')).toFixed(1)} times faster than ts_rank_cd.`,
    `Goals: at most ${goals.timesVectors} of the vector query, at least ${goals.timesFaster} times faster.`,
  ];
}

/** The product's search with a stub analyzer and a stub embedder that return precomputed results. */
function searchOf({ db, vectors }: SearchSubject, { terms, vector }: CorpusQuery) {
  return createGroupSearch({
    db,
    vectors,
    embedders: { of: () => ({ model, embed: async () => [vector] }) },
    analyze: () => terms.map((stem) => ({ stem, isStopWord: false })),
    models: { queryPrefix: async () => '', languages: async () => null },
    logger: { warn: console.warn },
    inTurn: { words: (_, search) => search(), vectors: (_, search) => search() },
    repository: createRetrievalRepository(db),
  });
}

/** Stores the same words as a `tsvector` for the built-in full-text search of Postgres. */
async function indexLexemes(db: Knex): Promise<void> {
  await db.raw(
    `create table if not exists lexemes as
     select id as chunk_id, org_id, document_id, generation, to_tsvector('simple', content) as words from chunks`,
  );
  await db.raw('create index if not exists lexemes_words_idx on lexemes using gin (words)');
  await db.raw('vacuum analyze lexemes');
}

async function searchByRankCd(
  db: Knex,
  { orgId, acl, terms }: { orgId: string; acl: string[]; terms: readonly string[] },
): Promise<unknown> {
  return db.raw(
    `select l.chunk_id
     from lexemes l
     join documents d on d.org_id = l.org_id and d.id = l.document_id and d.active_generation = l.generation
     where l.org_id = :orgId and d.acl && :acl::text[] and l.words @@ :any::tsquery
     order by ts_rank_cd(l.words, :any::tsquery) desc, l.chunk_id
     limit ${limit}`,
    { orgId, acl, any: terms.map((term) => `'${term}'`).join(' | ') },
  );
}

import type { Knex } from 'knex';
import {
  canReadOnlyFewDocuments,
  type ReadableDocumentCounts,
  readableDocumentBindings,
  readableDocumentConditionSql,
  readableDocumentCountsSql,
  readableDocumentIdsSql,
} from '#src/adapters/postgres/readable.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  queryRowsWithTimeout,
  type RowShape,
  type SqlRow,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { BM25_B, BM25_K1, CHUNKS_PER_POSTING_BLOCK, inverseDocumentFrequency } from '#src/domain/retrieval/bm25.ts';
import type { ReadableDocumentsFilter } from '#src/ports/vector-store.ts';
import { type PassageHit, passageHitRowShape, type WordSearchHit, wordSearchHitRowShape } from './retrieval.model.ts';

const termCount = defineRowShape({
  term: textColumn(),
  chunkCount: integerColumn(),
  collectionChunks: bigintColumn(),
  collectionTerms: bigintColumn(),
  opened: integerColumn(),
  stored: integerColumn(),
});
const readableDocument = defineRowShape({ id: uuidColumn(), chunkCount: integerColumn() });
const readableTerm = defineRowShape({ term: textColumn(), postings: bigintColumn() });

type WeightedTerm = { term: string; chunkCount: number; weight: number };

/**
 * Limits of a BM25 search. Rows that the caller cannot read do not count; docs/benchmarks.md shows the effect of each
 * limit.
 */
export type WordSearchLimits = {
  terms: number;
  postings: number;
  /**
   * Maximum postings read per term. If the readable chunks times the query's terms are no more than this, every
   * readable chunk is scored.
   */
  furthest: number;
  /** For each requested hit, this many candidate chunks also get their scores on common terms computed. */
  candidatesPerHit: number;
  /** If the caller can read at most this many documents, only these are searched and not the whole index. */
  documents: number;
};

const defaultEffort: WordSearchLimits = {
  terms: 64,
  postings: 5_000,
  furthest: 100_000,
  candidatesPerHit: 16,
  documents: 300,
};

type WordQuery = {
  readable: ReadableDocumentsFilter;
  model?: string;
  terms: readonly string[];
  limit: number;
  /** Number of hits from which further rare terms must fit the limit of postings; equals `limit` by default. */
  enough?: number;
  timeoutMs?: number;
};

/**
 * A running search. `endsAtMs` is in the time of `performance.now()`. A narrow search filters by readable document ids
 * instead of checking access to each document.
 */
type Search = WordQuery & { endsAtMs: number; isNarrow: boolean };

/** The result's columns, and the SQL that selects them from the ranked hits `ranked`. */
type Output<S extends RowShape> = { hit: S; select: string };

type Plan = { rare: readonly WeightedTerm[]; common: readonly WeightedTerm[]; averageLength: number };

/** SQL for the BM25 score of a posting `p`, as `bm25TermScore` computes it. */
const termScore = `p.weight * p.frequency * (:k1::float8 + 1)
  / (p.frequency + :k1::float8 * (1 - :b::float8 + :b::float8 * p.length / :averageLength::float8))`;

/** SQL that unpacks the postings that src/domain/retrieval/bm25.ts packs. */
const unpacked = 'posting >> 24 as place, (posting >> 14) & 1023 as frequency, posting & 16383 as length';

const isSearchable = `${readableDocumentConditionSql} and d.active_generation is not null
  and (:model::text is null or d.active_embedding_model = :model)`;

const searchableDocument = `
  cross join lateral (
    select from documents d where d.id = t.document_id and d.active_generation = t.generation and ${isSearchable} limit 1
  ) searchable`;

/** SQL for a term's postings in readable documents, one per row; others do not use up the limit of postings. */
const readablePostings = (term: string, { isNarrow, readable, model }: Search) => `
  select t.document_id, t.generation, t.block, unnest(t.postings) as posting
  from document_terms t
  ${isNarrow && isByKeysAlone(readable) && model === undefined ? '' : searchableDocument}
  where t.org_id = :orgId and t.term = ${term}
    and (:include::uuid[] is null or t.document_id = any (:include::uuid[]))
    ${isNarrow ? `and ((t.document_id, t.generation) in (${readableDocumentIdsSql})) is true` : ''}`;

/**
 * SQL that adds the scores of common terms to the likely hits, looked up per block of postings. Lateral joins fix the
 * query plan, because the planner cannot estimate the number of hits.
 */
const scoredOnAllTerms = `
  select document_id, generation, block, place, sum(score) as total, sum(term_count) as term_count
  from (
    select *, true as is_likely from likely
    union all
    select document_id, generation, block, place, ${termScore}, 1, false
    from (
      select l.*, q.weight, unnest(t.postings) as posting
      from (select distinct document_id, generation, block from likely) l
      cross join unnest(:commonTerms::text[], :commonWeights::float8[]) as q (term, weight)
      cross join lateral (
        select postings from document_terms t
        where t.org_id = :orgId and t.term = q.term
          and t.document_id = l.document_id and t.generation = l.generation and t.block = l.block
        limit 1
      ) t
    ) packed
    cross join lateral (select weight, ${unpacked}) p
  ) scores
  group by document_id, generation, block, place
  having bool_or(is_likely)`;

/** SQL join that checks access to each hit a last time, against the row of its document. */
const ofReadable = (hits: string) =>
  `join documents d on d.id = ${hits}.document_id and d.active_generation = ${hits}.generation and ${isSearchable}`;

const bestChunks = `
  select c.id as chunk_id, ranked.total as score
  from ranked
  ${ofReadable('ranked')}
  join chunks c
    on c.document_id = ranked.document_id and c.generation = ranked.generation
    and c.chunk_index = ranked.block * ${CHUNKS_PER_POSTING_BLOCK} + ranked.place
  order by ranked.total desc, c.id
  limit :limit`;

const bestPassages = (hits: number) => `
  select passages.document_id, passages.generation, passages.block * ${CHUNKS_PER_POSTING_BLOCK} + passages.place as chunk_index,
         passages.total as score, passages.term_count::bigint, d.updated_at, d.active_language as language
  from (
    select * from (
      select ranked.*, row_number() over (partition by document_id order by total desc, block, place) as nth from ranked
    ) counted
    where nth <= 3
    order by nth > 1, total desc, document_id
    limit ${hits}
  ) passages
  ${ofReadable('passages')}`;

function isByKeysAlone({
  includeDocumentIds,
  excludeDocumentIds,
  retrievalSettings,
  scope,
}: ReadableDocumentsFilter): boolean {
  return [includeDocumentIds, excludeDocumentIds, retrievalSettings, scope].every(
    (narrowing) => narrowing === undefined,
  );
}

export function createWordSearchRepository(db: Knex, otherEffort: Partial<WordSearchLimits> = {}) {
  const effort = { ...defaultEffort, ...otherEffort };

  function ask<S extends RowShape>(search: Search, source: S, sql: string, values: Record<string, unknown>) {
    const { readable, model = null, endsAtMs } = search;
    const bindings = { ...readableDocumentBindings(readable), model, ...values };
    return queryRowsWithTimeout(Math.max(1, endsAtMs - performance.now()), db, source, sql, bindings);
  }

  async function weigh(
    query: Search,
  ): Promise<{ weighted: WeightedTerm[]; averageLength: number; counts: ReadableDocumentCounts }> {
    const rows = await ask(
      query,
      termCount,
      `select t.term, t.chunk_count, s.chunk_count as collection_chunks, s.term_count as collection_terms, counts.*
       from chunk_statistics s join term_statistics t using (org_id) cross join (${readableDocumentCountsSql}) counts
       where org_id = :orgId and t.term = any (:terms::text[]) and t.chunk_count > 0
       order by t.chunk_count, t.term`,
      { terms: [...query.terms] },
    );
    const [{ collectionChunks = 0, collectionTerms = 0, opened = 0, stored = 0 } = {}] = rows;
    return {
      counts: { opened, stored },
      weighted: rows.map(({ term, chunkCount }) => ({
        term,
        chunkCount,
        weight: inverseDocumentFrequency(chunkCount, collectionChunks),
      })),
      averageLength: Math.max(collectionTerms / collectionChunks, 1),
    };
  }

  /** @returns the readable documents and the number of their chunks; null if there are more than `effort.documents` */
  async function listFewReadable(query: Search): Promise<{ documentIds: string[]; chunkCount: number } | null> {
    const rows = await ask(
      query,
      readableDocument,
      `select d.id, coalesce(g.chunks_total, 0) as chunk_count
       from (
         select d.id, d.active_generation from documents d where ${isSearchable} limit :documents::integer + 1
       ) d
       left join document_generations g on g.document_id = d.id and g.generation = d.active_generation`,
      { documents: effort.documents },
    );
    if (rows.length > effort.documents) return null;
    const chunkCount = rows.reduce((sum, row) => sum + row.chunkCount, 0);
    return { documentIds: rows.map((row) => row.id), chunkCount };
  }

  /**
   * Selects the rarest terms in the readable documents, up to the limit of postings, and further terms if these give
   * too few hits. Equally rare terms are sorted by their frequency in the organization.
   */
  async function takeRare(query: Search, weighted: readonly WeightedTerm[]): Promise<WeightedTerm[]> {
    const counts = await ask(
      query,
      readableTerm,
      `select q.term, (select count(*) from (${readablePostings('q.term', query)} limit :postings::integer + 1) p) as postings
       from unnest(:terms::text[]) as q (term)`,
      { terms: weighted.map(({ term }) => term), postings: effort.postings },
    );
    const postingsOf = new Map(counts.map(({ term, postings }) => [term, postings]));
    const counted = weighted.map((term) => ({ term, postings: postingsOf.get(term.term) ?? 0 }));
    const rare: WeightedTerm[] = [];
    let read = 0;
    let hits = 0;
    for (const { term, postings } of counted.toSorted((a, b) => a.postings - b.postings)) {
      if (hits >= (query.enough ?? query.limit) && read + postings > effort.postings) break;
      rare.push(term);
      read += postings;
      // A chunk has at most one posting per term. So there are at least as many hits as postings of this term, the most
      // frequent so far.
      hits = postings;
    }
    return rare;
  }

  function find<S extends RowShape>(query: Search, { rare, common, averageLength }: Plan, { hit, select }: Output<S>) {
    const { limit } = query;
    return ask(
      query,
      hit,
      `with scored as (
         select document_id, generation, block, place, sum(${termScore}) as score, count(*) as term_count
         from (
           select r.*, q.weight
           from unnest(:rareTerms::text[], :rareWeights::float8[]) as q (term, weight)
           cross join lateral (
             ${readablePostings('q.term', query)}
             -- Newest documents first, by id.
             order by t.document_id desc, t.generation desc, t.block desc
             limit :furthest
           ) r
         ) packed
         cross join lateral (select weight, ${unpacked}) p
         group by document_id, generation, block, place
       ),
       best as (
         select * from scored
         order by score desc
         fetch first :candidates rows with ties
       ),
       likely as (
         select * from best
         where score + :reachable::float8
               >= coalesce((select score from best order by score desc offset :limit::integer - 1 limit 1), 0)
       ),
       ranked as (
         ${common.length === 0 ? 'select *, score as total from best' : scoredOnAllTerms}
         order by total desc
         fetch first :limit rows with ties
       )
       ${select}`,
      {
        rareTerms: rare.map(({ term }) => term),
        rareWeights: rare.map(({ weight }) => weight),
        commonTerms: common.map(({ term }) => term),
        commonWeights: common.map(({ weight }) => weight),
        // Upper bound of what the common terms can add to a chunk's score.
        reachable: common.reduce((sum, { weight }) => sum + weight * (BM25_K1 + 1), 0),
        furthest: effort.furthest,
        candidates: common.length === 0 ? limit : limit * effort.candidatesPerHit,
        limit,
        averageLength,
        k1: BM25_K1,
        b: BM25_B,
      },
    );
  }

  async function search<S extends RowShape>(
    { timeoutMs = 10_000, ...asked }: WordQuery,
    output: Output<S>,
  ): Promise<SqlRow<S>[]> {
    if (asked.terms.length === 0) return [];
    const terms = [...new Set(asked.terms)].slice(0, effort.terms);
    const query: Search = { ...asked, terms, endsAtMs: performance.now() + timeoutMs, isNarrow: false };
    const { weighted, averageLength, counts } = await weigh(query);
    if (weighted.length === 0) return [];
    const all = { rare: weighted, common: [], averageLength };
    if (weighted.reduce((sum, { chunkCount }) => sum + chunkCount, 0) <= effort.postings) {
      return find(query, all, output);
    }
    const few = await listFewReadable(query);
    const own: Search =
      few === null
        ? { ...query, isNarrow: canReadOnlyFewDocuments(counts) }
        : { ...query, readable: { ...query.readable, includeDocumentIds: few.documentIds } };
    // Multiplies by the number of terms in the question and not of terms that occur, because the choice must not reveal
    // which terms occur in unreadable documents.
    if (few !== null && few.chunkCount * terms.length <= effort.furthest) return find(own, all, output);
    const rare = weighted.length === 1 ? weighted : await takeRare(own, weighted);
    return find(own, { ...all, rare, common: weighted.filter((term) => !rare.includes(term)) }, output);
  }

  return {
    /**
     * BM25 (Robertson and Zaragoza 2009) over active chunks, best first, ties by chunk id. Term statistics are those of
     * the whole organization, so that scores do not depend on the caller. Unreadable documents have no other effect:
     * they are not read and do not count for limits.
     *
     * If the query's terms have few postings, or the readable documents few chunks, all chunks are scored. Otherwise
     * the candidates are the chunks with one of the rarest terms. Of these, only those are scored on the common terms
     * that could then still be among the best hits.
     * @param query.terms duplicates count once
     */
    searchWords: (query: WordQuery): Promise<WordSearchHit[]> =>
      search(query, { hit: wordSearchHitRowShape, select: bestChunks }),

    /**
     * Searches like `searchWords`, and groups the passages by document: at most three of each, first the best passage
     * of every document.
     * @param query.limit number of ranked chunks
     * @param hits number of returned passages
     */
    searchPassages: (query: WordQuery, hits: number): Promise<PassageHit[]> =>
      search(query, { hit: passageHitRowShape, select: bestPassages(hits) }),
  };
}

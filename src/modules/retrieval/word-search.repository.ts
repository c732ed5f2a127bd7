import { BM25_B, BM25_K1, inverseDocumentFrequency } from '#src/domain/bm25.ts';
import { CHUNKS_PER_BLOCK } from '#src/domain/postings.ts';
import type { Db } from '#src/ports/database.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import type { WordHit } from './retrieval.model.ts';

type WeightedTerm = { term: string; chunkCount: number; weight: number };

/** How much a search reads at most; what more would cost, and bring, is in docs/benchmarks.md. */
export type WordSearchEffort = {
  /** Of the rare terms together. The rarest one is read up to twenty times as far. */
  postings: number;
  /** Hits that are scored on the common terms too, for each that is asked for. */
  candidatesPerHit: number;
  /** So many readable documents are searched by themselves, for all terms. */
  documents: number;
};

export const usualEffort: WordSearchEffort = { postings: 5_000, candidatesPerHit: 8, documents: 300 };

type WordQuery = { readable: ReadableDocuments; model?: string; terms: readonly string[]; limit: number };

/** How a search goes about it; `documentIds` are the only ones that it looks at, where they are known. */
type Plan = {
  rare: readonly WeightedTerm[];
  common: readonly WeightedTerm[];
  averageLength: number;
  documentIds: readonly string[] | null;
};

/** What a posting adds to its chunk's score, as `bm25TermScore` has it; `p` is a row of postings taken apart. */
const termScore = `p.weight * p.frequency * (:k1::float8 + 1)
  / (p.frequency + :k1::float8 * (1 - :b::float8 + :b::float8 * p.length / :averageLength::float8))`;

/** src/domain/postings.ts packs them. */
const unpacked = 'posting >> 24 as place, (posting >> 14) & 1023 as frequency, posting & 16383 as length';

/** The likely hits, scored on the common terms too. Those of one document are looked up together. */
const scoredOnAllTerms = `
  select l.document_id, l.generation, l.block, l.place, l.score + coalesce(sum(${termScore}), 0) as total
  from likely l
  left join (
    select packed.*, ${unpacked}
    from (
      select t.document_id, t.generation, t.block, q.weight, unnest(t.postings) as posting
      from (select distinct document_id, generation, block from likely) l
      cross join unnest(:commonTerms::text[], :commonWeights::float8[]) as q (term, weight)
      join document_terms t
        on t.org_id = :orgId and t.term = q.term
        and t.document_id = l.document_id and t.generation = l.generation and t.block = l.block
    ) packed
  ) p using (document_id, generation, block, place)
  group by l.document_id, l.generation, l.block, l.place, l.score`;

export function createWordSearchRepository(db: Db, effort: WordSearchEffort = usualEffort) {
  async function weigh(
    orgId: string,
    terms: readonly string[],
  ): Promise<{ weighted: WeightedTerm[]; averageLength: number }> {
    const { rows } = await db.raw<{
      rows: { term: string; chunkCount: number; collectionChunks: number; collectionTerms: number }[];
    }>(
      `select t.term, t.chunk_count, s.chunk_count as collection_chunks, s.term_count as collection_terms
       from chunk_statistics s join term_statistics t using (org_id)
       where org_id = ? and t.term = any (?::text[]) and t.chunk_count > 0
       order by t.chunk_count, t.term`,
      [orgId, [...terms]],
    );
    const [{ collectionChunks = 0, collectionTerms = 0 } = {}] = rows;
    return {
      weighted: rows.map(({ term, chunkCount }) => ({
        term,
        chunkCount,
        weight: inverseDocumentFrequency(chunkCount, collectionChunks),
      })),
      averageLength: Math.max(collectionTerms / collectionChunks, 1),
    };
  }

  /** The rarest terms, rarest first, as far as their postings may be read; at least one. */
  function takeRare(weighted: readonly WeightedTerm[]): number {
    let postings = 0;
    let count = 0;
    for (const { chunkCount } of weighted) {
      postings += chunkCount;
      if (count > 0 && postings > effort.postings) break;
      count += 1;
    }
    return count;
  }

  /** Null when there are more of them than are searched by themselves. */
  async function listFewReadable({ readable, model }: WordQuery): Promise<string[] | null> {
    const { rows } = await db.raw<{ rows: { id: string }[] }>(
      `select d.id from documents d where d.org_id = :orgId and ${isReadable} limit :documents::integer + 1`,
      { ...readableValues(readable, model), documents: effort.documents },
    );
    return rows.length > effort.documents ? null : rows.map((row) => row.id);
  }

  async function find({ readable, model, limit }: WordQuery, plan: Plan): Promise<WordHit[]> {
    const { rare, common, averageLength, documentIds } = plan;
    const { rows } = await db.raw<{ rows: WordHit[] }>(
      `with scored as (
         select document_id, generation, block, place, sum(${termScore}) as score
         from (
           select t.document_id, t.generation, t.block, q.weight, unnest(t.postings) as posting
           from unnest(:rareTerms::text[], :rareWeights::float8[]) as q (term, weight)
           cross join lateral (
             select * from document_terms t
             where t.org_id = :orgId and t.term = q.term
               ${documentIds === null ? '' : 'and t.document_id = any (:documentIds::uuid[])'}
             limit :rowLimit
           ) t
         ) packed
         cross join lateral (select weight, ${unpacked}) p
         group by document_id, generation, block, place
       ),
       best as (
         select s.* from (select * from scored order by score desc) s
         cross join lateral (
           select from documents d
           where d.org_id = :orgId and d.id = s.document_id and d.active_generation = s.generation and ${isReadable}
           limit 1
         ) readable
         order by s.score desc
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
       select c.id as chunk_id, ranked.total as score
       from ranked
       join chunks c
         on c.document_id = ranked.document_id and c.generation = ranked.generation
         and c.chunk_index = ranked.block * ${CHUNKS_PER_BLOCK} + ranked.place
       order by ranked.total desc, c.id
       limit :limit`,
      {
        ...readableValues(readable, model),
        documentIds: [...(documentIds ?? [])],
        rareTerms: rare.map(({ term }) => term),
        rareWeights: rare.map(({ weight }) => weight),
        commonTerms: common.map(({ term }) => term),
        commonWeights: common.map(({ weight }) => weight),
        // However often a term is repeated, it adds less than this.
        reachable: common.reduce((sum, { weight }) => sum + weight * (BM25_K1 + 1), 0),
        rowLimit: effort.postings * 20,
        candidates: common.length === 0 ? limit : limit * effort.candidatesPerHit,
        limit,
        averageLength,
        k1: BM25_K1,
        b: BM25_B,
      },
    );
    return rows;
  }

  return {
    /**
     * BM25 (Robertson and Zaragoza 2009) over active chunks, best first, ties by chunk id. The statistics are the
     * organization's, so that a score does not depend on who asks; what comes back is only what `readable` opens.
     *
     * Where the query's terms have few postings, and in few documents, everything is scored. Else candidates are the
     * chunks that have one of the rarest terms, and of them only those are scored on the common terms too which could
     * still come among the best, would they have these terms as often as can be. When that gives fewer hits than are
     * asked for, because most of these chunks are not to be read, the common terms are searched as well.
     * @param query.terms repeated ones count once
     */
    async searchWords(query: WordQuery): Promise<WordHit[]> {
      const { readable, terms, limit } = query;
      if (terms.length === 0) return [];
      const { weighted, averageLength } = await weigh(readable.orgId, terms);
      if (weighted.length === 0) return [];
      const all = { rare: weighted, common: [], averageLength, documentIds: readable.includeDocumentIds ?? null };
      if (all.documentIds !== null) return find(query, all);

      const rareCount = takeRare(weighted);
      if (rareCount === weighted.length) return find(query, all);
      const documentIds = await listFewReadable(query);
      if (documentIds !== null) return find(query, { ...all, documentIds });
      const rareFirst = { ...all, rare: weighted.slice(0, rareCount), common: weighted.slice(rareCount) };
      const hits = await find(query, rareFirst);
      return hits.length < limit ? find(query, all) : hits;
    },
  };
}

/** What a query says of documents besides their names. */
const isReadable = `d.active_generation is not null and d.acl && :acl::text[]
           and (:model::text is null or d.active_embedding_model = :model)
           and (:settings::text[] is null or d.retrieval_settings = any (:settings::text[]))
           and (:exclude::uuid[] is null or d.id <> all (:exclude::uuid[]))`;

function readableValues({ orgId, acl, retrievalSettings, excludeDocumentIds }: ReadableDocuments, model?: string) {
  return {
    orgId,
    acl: [...acl],
    model: model ?? null,
    settings: retrievalSettings === undefined ? null : [...retrievalSettings],
    exclude: excludeDocumentIds === undefined ? null : [...excludeDocumentIds],
  };
}

import { readableBy } from '#src/adapters/postgres/readable.ts';
import { BM25_B, BM25_K1 } from '#src/domain/bm25.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import type { Candidate, WordHit } from './retrieval.model.ts';

export function createRetrievalRepository(db: Db) {
  const readableChunks = (actor: Actor, chunkIds: readonly string[]) =>
    readableBy(db('documents as d'), actor, 'd')
      .join('chunks as c', (on) =>
        on.on('c.orgId', 'd.orgId').andOn('c.documentId', 'd.id').andOn('c.generation', 'd.activeGeneration'),
      )
      .whereIn('c.id', chunkIds);

  return {
    /**
     * BM25 (Robertson and Zaragoza 2009) over the organization's active chunks, best first, ties by chunk id. The
     * statistics are the organization's, so that a score does not depend on who asks; what comes back is only what
     * `readable` opens.
     */
    async searchWords(input: {
      readable: ReadableDocuments;
      terms: readonly string[];
      limit: number;
    }): Promise<WordHit[]> {
      if (input.terms.length === 0) return [];
      const { readable } = input;
      const { rows } = await db.raw<{ rows: WordHit[] }>(
        `with collection as (
           select count(*)::float8 as size, greatest(avg(c.term_count), 1)::float8 as average_length
           from documents d
           join chunks c on c.org_id = d.org_id and c.document_id = d.id and c.generation = d.active_generation
           where d.org_id = :orgId
         ),
         postings as (
           select t.term, t.frequency, c.id, c.term_count, c.document_id, d.acl
           from chunk_terms t
           join chunks c on c.org_id = t.org_id and c.id = t.chunk_id
           join documents d on d.org_id = c.org_id and d.id = c.document_id and d.active_generation = c.generation
           where t.org_id = :orgId and t.term = any(:terms)
         ),
         weights as (
           select term, ln(1 + (size - count(*) + 0.5) / (count(*) + 0.5)) as weight
           from postings cross join collection
           group by term, size
         )
         select p.id as chunk_id,
                sum(weight * p.frequency * (:k1::float8 + 1)
                    / (p.frequency + :k1::float8 * (1 - :b::float8 + :b::float8 * p.term_count / average_length))) as score
         from postings p
         join weights using (term)
         cross join collection
         where p.acl && :acl::text[]
           and (:include::uuid[] is null or p.document_id = any(:include::uuid[]))
           and (:exclude::uuid[] is null or p.document_id <> all(:exclude::uuid[]))
         group by p.id
         order by score desc, p.id
         limit :limit`,
        {
          orgId: readable.orgId,
          terms: [...input.terms],
          acl: [...readable.acl],
          include: uuidArray(readable.includeDocumentIds),
          exclude: uuidArray(readable.excludeDocumentIds),
          limit: input.limit,
          k1: BM25_K1,
          b: BM25_B,
        },
      );
      return rows;
    },

    /** The texts of those chunks that the actor may read now and that are in their document's active generation. */
    async loadReadable(actor: Actor, chunkIds: readonly string[]): Promise<Candidate[]> {
      return readableChunks(actor, chunkIds).select({
        chunkId: 'c.id',
        documentId: 'c.documentId',
        documentName: 'd.name',
        pageNumber: 'c.pageNumber',
        content: 'c.content',
        tokenCount: 'c.tokenCount',
        reranking: db.raw("d.rag_config -> 'reranking'"),
      });
    },

    async readableChunkIds(actor: Actor, chunkIds: readonly string[]): Promise<Set<string>> {
      return new Set(await readableChunks(actor, chunkIds).pluck('c.id'));
    },

    /** Those of the ids that name a document which the actor may read. */
    async readableDocumentIds(actor: Actor, documentIds: readonly string[]): Promise<Set<string>> {
      if (documentIds.length === 0) return new Set();
      const rows: string[] = await readableBy(db('documents'), actor, 'documents')
        .whereIn('id', documentIds)
        .pluck('id');
      return new Set(rows);
    },
  };
}

function uuidArray(ids: readonly string[] | undefined): string[] | null {
  return ids === undefined ? null : [...ids];
}

import type { Knex } from 'knex';
import {
  readableDocumentBindings,
  readableDocumentConditionSql,
  whereReadableByActor,
} from '#src/adapters/postgres/readable.ts';
import {
  defineRowShape,
  integerColumn,
  queryRows,
  type SqlRow,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { FolderModel } from '#src/modules/folders/folders.model.ts';
import type { ReadableDocumentsFilter } from '#src/ports/vector-store.ts';
import {
  type ChunkPlace,
  chunkPlaceRowShape,
  type DocumentGroup,
  type DocumentPartChunk,
  documentGroupRowShape,
  documentPartChunkRowShape,
  type RecentPassage,
  type RetrievalCandidate,
  recentPassageRowShape,
  retrievalCandidateRowShape,
} from './retrieval.model.ts';

/**
 * SQL for the signature that identifies a document group: its settings, then its embedding model. The settings are
 * JSON, so it is unambiguous where they end.
 */
const signatureOf = (table: string) => `${table}.retrieval_settings || ${table}.active_embedding_model as signature`;

const maxChanged = 1_000;
const documentsOfSample = 12;

/**
 * Number of a group's documents that are checked first. If the caller can read none of them, all documents of the group
 * are checked.
 */
const documentsSampled = 500;

const countOfGroup = defineRowShape({ signature: textColumn(), documents: integerColumn() });
const signatureOfChunk = defineRowShape({ id: uuidColumn(), signature: textColumn(), language: textColumn() });
export type ChunkSignature = Omit<SqlRow<typeof signatureOfChunk>, 'id'>;
const someId = defineRowShape({ id: uuidColumn() });

type ScopedDocuments = ReadableDocumentsFilter & Required<Pick<ReadableDocumentsFilter, 'scope'>>;

export type RetrievalRepository = ReturnType<typeof createRetrievalRepository>;

export function createRetrievalRepository(db: Knex) {
  const readableChunks = (actor: Actor, chunkIds: readonly string[]) =>
    whereReadableByActor(db('documents as d'), actor, 'd')
      .join('chunks as c', (on) =>
        on.on('c.orgId', 'd.orgId').andOn('c.documentId', 'd.id').andOn('c.generation', 'd.activeGeneration'),
      )
      .whereRaw('c.id = any (?::uuid[])', [[...chunkIds]]);

  const activeChunks = (readable: ReadableDocumentsFilter) =>
    db('documents as d')
      .whereRaw(readableDocumentConditionSql, readableDocumentBindings(readable))
      .join('chunks as c', (on) =>
        on.on('c.orgId', 'd.orgId').andOn('c.documentId', 'd.id').andOn('c.generation', 'd.activeGeneration'),
      );

  const activeDocuments = (readable: ReadableDocumentsFilter) =>
    db('documents as d')
      .whereNull('d.deletedAt')
      .whereNotNull('d.activeGeneration')
      .whereRaw(readableDocumentConditionSql, readableDocumentBindings(readable));

  return {
    /**
     * Lists the groups that have readable documents, with the languages of these. Steps through the index from one
     * signature and language to the next (loose index scan) and checks a sample of each, so that the cost grows with
     * the number of groups and not of documents. Checks all their documents only if none of the sample is readable.
     */
    async listGroups(readable: ReadableDocumentsFilter): Promise<DocumentGroup[]> {
      const searchedTogether = 'retrieval_settings, active_embedding_model, active_language';
      const isActive = 'org_id = :orgId and active_generation is not null and deleted_at is null';
      const ofGroup = `select * from documents
               where ${isActive} and retrieval_settings = s.retrieval_settings
                 and active_embedding_model = s.active_embedding_model and active_language = s.active_language`;
      return queryRows(
        db,
        documentGroupRowShape,
        `with recursive signatures as (
           (select ${searchedTogether} from documents
            where ${isActive}
            order by ${searchedTogether}
            limit 1)
           union all
           select next.* from signatures s cross join lateral (
             select ${searchedTogether} from documents
             where ${isActive}
               and (${searchedTogether}) > (s.retrieval_settings, s.active_embedding_model, s.active_language)
             order by ${searchedTogether}
             limit 1
           ) next
         )
         select retrieval_settings, retrieval_settings::jsonb as settings, active_embedding_model as embedding_model,
                ${signatureOf('s')}, array_agg(active_language) as languages
         from signatures s
         where exists (select from (${ofGroup} limit ${documentsSampled}) d where ${readableDocumentConditionSql})
           -- A count, because the planner would scan for exists in the order of the group.
           or (select count(*) from (${ofGroup}) d where ${readableDocumentConditionSql}) > 0
         group by retrieval_settings, active_embedding_model`,
        readableDocumentBindings(readable),
      );
    },

    async countReadable(readable: ReadableDocumentsFilter): Promise<Map<string, number>> {
      const counts = activeDocuments(readable)
        .select(db.raw(signatureOf('d')), db.raw('count(*)::integer as documents'))
        .groupBy('signature');
      return new Map((await queryRows(db, countOfGroup, counts)).map((row) => [row.signature, row.documents]));
    },

    /**
     * Lists readable documents that changed during the last seconds, latest first: they may have moved to another group
     * while it was searched.
     */
    async listChanged(readable: ReadableDocumentsFilter, withinSeconds: number): Promise<string[]> {
      const changed = activeDocuments(readable)
        .whereRaw('updated_at >= now() - make_interval(secs => ?) and updated_at > created_at', [withinSeconds])
        .orderBy('updatedAt', 'desc')
        .limit(maxChanged)
        .select('d.id');
      return (await queryRows(db, someId, changed)).map(({ id }) => id);
    },

    async sampleRecent(readable: ReadableDocumentsFilter): Promise<RecentPassage[]> {
      const newest = activeDocuments(readable).orderBy('updatedAt', 'desc').limit(documentsOfSample).select('d.*');
      const sample = db('chunks as c')
        .join(newest.as('n'), { 'n.orgId': 'c.orgId', 'n.id': 'c.documentId', 'n.activeGeneration': 'c.generation' })
        .join('documentGenerations as g', { 'g.documentId': 'n.id', 'g.generation': 'n.activeGeneration' })
        .whereRaw('c.chunk_index in (0, g.chunks_total / 2)')
        .orderBy([{ column: 'n.updatedAt', order: 'desc' }, 'c.documentId', 'c.chunkIndex'])
        .select('c.documentId', 'c.content');
      return queryRows(db, recentPassageRowShape, sample);
    },

    /**
     * @returns the signature of the document group (its settings and model) and the language of each chunk, only for
     * chunks of `readable` documents that are in the active generation
     */
    async findSignatures(
      readable: ReadableDocumentsFilter,
      chunkIds: readonly string[],
    ): Promise<Map<string, ChunkSignature>> {
      if (chunkIds.length === 0) return new Map();
      const found = activeChunks(readable)
        .whereRaw('c.id = any (?::uuid[])', [[...chunkIds]])
        .select('c.id', db.raw(signatureOf('d')), 'd.activeLanguage as language');
      return new Map((await queryRows(db, signatureOfChunk, found)).map(({ id, ...signature }) => [id, signature]));
    },

    async loadReadable(actor: Actor, chunkIds: readonly string[]): Promise<RetrievalCandidate[]> {
      if (chunkIds.length === 0) return [];
      const found = readableChunks(actor, chunkIds).select(
        ...['c.id as chunkId', 'c.documentId', 'd.name as documentName', 'c.pageNumber', 'c.content', 'c.tokenCount'],
        ...[
          'd.activeEmbeddingModel as embeddingModel',
          db.raw(signatureOf('d')),
          db.raw("d.rag_config -> 'reranking' as reranking"),
        ],
      );
      return queryRows(db, retrievalCandidateRowShape, found);
    },

    async loadRun(
      readable: ReadableDocumentsFilter,
      documentId: string,
      { first, limit }: { first: number; limit: number },
    ): Promise<DocumentPartChunk[]> {
      const ofActive =
        'from chunks a where a.org_id = d.org_id and a.document_id = d.id and a.generation = d.active_generation';
      const run = activeChunks(readable)
        .where('d.id', documentId)
        .where('c.chunkIndex', '>=', first)
        .orderBy('c.chunkIndex')
        .limit(limit)
        .select(
          ...['c.id as chunkId', 'c.documentId', 'd.name as documentName', 'c.pageNumber', 'c.content', 'c.tokenCount'],
          'd.activeEmbeddingModel as embeddingModel',
          db.raw(`(select count(*)::integer ${ofActive}) as chunk_count`),
        );
      return queryRows(db, documentPartChunkRowShape, run);
    },

    async findPlaces(actor: Actor, chunkIds: readonly string[]): Promise<ChunkPlace[]> {
      if (chunkIds.length === 0) return [];
      const found = readableChunks(actor, chunkIds)
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .join('conversions as v', { 'v.orgId': 'g.orgId', 'v.id': 'g.conversionId' })
        .select('c.id as chunkId', 'c.contentOffset', 'c.chunkKind', 'c.contextualText')
        .select('g.documentName as chunkedName', 'v.pageMap');
      return queryRows(db, chunkPlaceRowShape, found);
    },

    async readableChunkIds(actor: Actor, chunkIds: readonly string[]): Promise<Set<string>> {
      const found = readableChunks(actor, chunkIds).select('c.id');
      return new Set((await queryRows(db, someId, found)).map(({ id }) => id));
    },

    /** @returns the folders with all folders below them */
    async listSubtrees(orgId: string, folderIds: readonly string[]): Promise<string[]> {
      if (folderIds.length === 0) return [];
      const below = await queryRows(
        db,
        someId,
        `with recursive below as (
           select id from folders where org_id = :orgId and id = any (:folderIds::uuid[])
           union
           select f.id from below join folders f on f.org_id = :orgId and f.parent_id = below.id
         )
         select id from below`,
        { orgId, folderIds: [...folderIds] },
      );
      return below.map(({ id }) => id);
    },

    /** @returns the documents of the scope that the caller may read; null if there are more than `limit` */
    async listFewOfScope({ orgId, acl, scope }: ScopedDocuments, limit: number): Promise<string[] | null> {
      const rows = await queryRows(
        db,
        someId,
        `select d.id from (
           select document_id as id from folder_links where org_id = :orgId and folder_id = any (:folderIds::uuid[])
           union all
           select unnest(:documentIds::uuid[])
         ) of_scope
         join documents d using (id)
         where d.org_id = :orgId and d.acl && :acl::text[]
         limit :limit::integer + 1`,
        { orgId, acl: [...acl], folderIds: [...scope.folderIds], documentIds: [...scope.documentIds], limit },
      );
      // A document in two folders counts twice for the limit.
      return rows.length > limit ? null : [...new Set(rows.map(({ id }) => id))];
    },

    async readableFolderIds(actor: Actor, folderIds: readonly string[]): Promise<Set<string>> {
      if (folderIds.length === 0) return new Set();
      const found = await whereReadableByActor(FolderModel.table(db), actor, 'folders')
        .whereIn('id', folderIds)
        .select('id');
      return new Set(found.map(({ id }) => id));
    },

    async readableDocumentIds(actor: Actor, documentIds: readonly string[]): Promise<Set<string>> {
      if (documentIds.length === 0) return new Set();
      const found = await whereReadableByActor(DocumentModel.table(db), actor, 'documents')
        .whereIn('id', documentIds)
        .select('id');
      return new Set(found.map(({ id }) => id));
    },
  };
}

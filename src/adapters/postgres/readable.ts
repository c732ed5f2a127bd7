import type { Knex } from 'knex';
import { type Actor, accessKeysOfActor } from '#src/domain/access/visibility.ts';
import type { ReadableDocumentsFilter } from '#src/ports/vector-store.ts';
import { defineRowShape, queryRows, type SqlQueryBuilder, uuidColumn } from './shapes.ts';

/**
 * Restricts a query to the rows of `table` (or its alias) that the caller can read. All queries that list rows use it.
 */
export function whereReadableByActor<Query extends SqlQueryBuilder>(
  query: Query,
  actor: Pick<Actor, 'userId' | 'orgId' | 'openTeamIds' | 'isOrgAdmin'>,
  table: string,
): Query {
  // Knex and Objection declare different types for the same query methods.
  const builder = query as Knex.QueryBuilder;
  builder.where(`${table}.orgId`, actor.orgId).whereRaw('?? && ?::text[]', [`${table}.acl`, accessKeysOfActor(actor)]);
  return query;
}

/** The access rule as an SQL condition on documents `d`. `readableDocumentBindings` returns its bindings. */
export const readableDocumentConditionSql = `d.org_id = :orgId and d.acl && :acl::text[]
  and (:settings::text[] is null or d.retrieval_settings = any (:settings::text[]))
  and (:include::uuid[] is null or d.id = any (:include::uuid[]))
  and (:exclude::uuid[] is null or d.id <> all (:exclude::uuid[]))
  and (:scopeFolders::uuid[] is null or d.id = any (:scopeDocuments::uuid[]) or exists (
    select from folder_links l where l.document_id = d.id and l.folder_id = any (:scopeFolders::uuid[])
  ))`;

export function readableDocumentBindings(readable: ReadableDocumentsFilter) {
  const listed = (values: readonly string[] | undefined) => (values === undefined ? null : [...values]);
  return {
    orgId: readable.orgId,
    acl: [...readable.acl],
    settings: listed(readable.retrievalSettings),
    include: listed(readable.includeDocumentIds),
    exclude: listed(readable.excludeDocumentIds),
    scopeFolders: listed(readable.scope?.folderIds),
    scopeDocuments: listed(readable.scope?.documentIds),
  };
}

/**
 * Selects the ACL hashes of the documents that the caller can read, from `document_totals`, which has one or more rows
 * for each ACL and is up to date in every snapshot. Narrows a search; `readableDocumentConditionSql` still decides on
 * each row. Bindings: `readableDocumentBindings`.
 */
export const readableDocumentAclHashesSql =
  'select acl_hash from document_totals where org_id = :orgId and acl && :acl::text[]';

/**
 * Selects ids and active generations of readable documents by an index-only scan. `offset 0` keeps the planner from
 * reading all documents. The limit exceeds what `canReadOnlyFewDocuments` allows; it only tells the planner that a hash
 * table of the rows fits in memory.
 */
export const readableDocumentIdsSql = `
  select opened.id, opened.active_generation
  from (select distinct acl_hash from (${readableDocumentAclHashesSql}) hashes) keys
  cross join lateral (
    select d.id, d.active_generation from documents d
    where d.org_id = :orgId and d.acl_hash = keys.acl_hash offset 0
  ) opened
  limit 100000`;

export const readableDocumentCountsSql = `
  select coalesce(sum(documents) filter (where acl && :acl::text[]), 0)::integer as opened,
         coalesce(sum(documents), 0)::integer as stored
  from document_totals where org_id = :orgId`;

export type ReadableDocumentCounts = { opened: number; stored: number };

/** Above this number of readable documents, a search that lists them is slower than one that skips unreadable ones. */
const narrowDocuments = 50_000;
/**
 * If the caller can read at least 1 in 4 documents, checking the access of each search candidate is as fast as listing
 * the readable documents.
 */
const narrowShare = 4;

export function canReadOnlyFewDocuments({ opened, stored }: ReadableDocumentCounts): boolean {
  return opened <= narrowDocuments && opened * narrowShare <= stored;
}

/** SQL condition: all ACL keys of the row belong to deleted users. False for an empty ACL (row is being deleted). */
export const hasOnlyAccessKeysOfDeletedUsersSql = (table: string): string => `
  cardinality(${table}.acl) > 0 and not exists (
    select from unnest(${table}.acl) as held (key)
    where not exists (
      select from users u
      where u.id = case when held.key like 'user:%' then substr(held.key, 6)::uuid end and u.deleted_at is not null
    )
  )`;

const documentId = defineRowShape({ id: uuidColumn() });

export type SelectedFolders = { orgId: string; folderIds: readonly string[] };

/**
 * Locks the documents in these folders, in order of their ids to prevent deadlocks. Skips those that are being deleted.
 */
export async function lockDocumentsInFolders(
  trx: Knex,
  { orgId, folderIds }: SelectedFolders,
  limit: number,
): Promise<string[]> {
  const locked = await queryRows(
    trx,
    documentId,
    `select d.id from documents d
     where d.deleted_at is null
       and d.id in (
         select l.document_id from folder_links l where l.org_id = :orgId and l.folder_id = any (:folderIds::uuid[])
       )
     order by d.id limit :limit for no key update`,
    { orgId, folderIds: [...folderIds], limit },
  );
  return locked.map(({ id }) => id);
}

/**
 * Recomputes the access keys of documents and their jobs: the author's key, and those of all folders that link the
 * document. Call it after each change of links or folders, while the documents are locked.
 */
export async function recomputeDocumentAccessKeys(trx: Knex, documentIds: readonly string[]): Promise<void> {
  const changed = await queryRows(
    trx,
    documentId,
    `update documents d set
       acl = due.acl,
       points_outdated_at = case when d.active_generation is null then d.points_outdated_at else clock_timestamp() end
     from (${dueKeys} where d.id = any (:ids::uuid[])) due
     where d.id = due.id and not (d.acl <@ due.acl and d.acl @> due.acl)
     returning d.id`,
    { ids: [...documentIds] },
  );
  await trx.raw(
    `update jobs j set acl = d.acl from documents d
     where d.id = any (:ids::uuid[]) and j.document_id = d.id`,
    { ids: changed.map(({ id }) => id) },
  );
}

const dueKeys = `
  select d.id,
         array['user:' || d.created_by] || array(
           select distinct key
           from folder_links l
           join folders f on f.org_id = l.org_id and f.id = l.folder_id
           cross join unnest(f.acl) held (key)
           where l.document_id = d.id and key <> 'user:' || d.created_by
           order by key
         ) as acl
  from documents d`;

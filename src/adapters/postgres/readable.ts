import type { Knex } from 'knex';
import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import type { Builder } from './shapes.ts';

/** Restricts a query to the rows of `table` (or its alias) that the caller can read. Every list uses it. */
export function readableBy<Query extends Builder>(
  query: Query,
  actor: Pick<Actor, 'userId' | 'orgId' | 'openTeamIds' | 'isOrgAdmin'>,
  table: string,
): Query {
  // Knex and Objection type the same calls differently.
  const builder = query as Knex.QueryBuilder;
  builder.where(`${table}.orgId`, actor.orgId).whereRaw('?? && ?::text[]', [`${table}.acl`, keysOf(actor)]);
  return query;
}

/** The same rule as an SQL condition on documents `d`. Its bindings are `readableValues`. */
export const isReadable = `d.org_id = :orgId and d.acl && :acl::text[]
  and (:settings::text[] is null or d.retrieval_settings = any (:settings::text[]))
  and (:include::uuid[] is null or d.id = any (:include::uuid[]))
  and (:exclude::uuid[] is null or d.id <> all (:exclude::uuid[]))`;

export function readableValues(readable: ReadableDocuments) {
  const listed = (values: readonly string[] | undefined) => (values === undefined ? null : [...values]);
  return {
    orgId: readable.orgId,
    acl: [...readable.acl],
    settings: listed(readable.retrievalSettings),
    include: listed(readable.includeDocumentIds),
    exclude: listed(readable.excludeDocumentIds),
  };
}

/**
 * ACL hashes of the documents that the caller can read. `document_totals` has one or more rows for each ACL and is exact
 * in every snapshot. Narrows a search; `isReadable` on the rows still decides. Bindings: `readableValues`.
 */
export const openedHashes = 'select acl_hash from document_totals where org_id = :orgId and acl && :acl::text[]';

/**
 * Ids and active generations of these documents, by an index-only scan. `offset 0` keeps the planner from reading all
 * documents. The limit, which is above what `isNarrow` allows, tells the planner that a hash table fits in memory.
 */
export const openedDocuments = `
  select opened.id, opened.active_generation
  from (select distinct acl_hash from (${openedHashes}) hashes) keys
  cross join lateral (
    select d.id, d.active_generation from documents d
    where d.org_id = :orgId and d.acl_hash = keys.acl_hash offset 0
  ) opened
  limit 100000`;

/** One row: {@link OpenedCounts}. */
export const openedCounts = `
  select coalesce(sum(documents) filter (where acl && :acl::text[]), 0)::integer as opened,
         coalesce(sum(documents), 0)::integer as stored
  from document_totals where org_id = :orgId`;

/** Numbers of documents that the caller can read and that the organization has. */
export type OpenedCounts = { opened: number; stored: number };

/** Above this, listing readable documents is slower than skipping unreadable ones. */
const narrowDocuments = 50_000;
/** If at least 1 in 4 documents is readable, checking each candidate is as fast. */
const narrowShare = 4;

/** Whether a search should list the readable documents first. */
export function isNarrow({ opened, stored }: OpenedCounts): boolean {
  return opened <= narrowDocuments && opened * narrowShare <= stored;
}

/**
 * SQL condition on a row of `table` (or its alias): all its ACL keys belong to deleted users, so no user can read it.
 * False for rows with an empty ACL, which a deletion has already begun to remove.
 */
export const isOrphaned = (table: string): string => `
  cardinality(${table}.acl) > 0 and not exists (
    select from unnest(${table}.acl) as held (key)
    where not exists (
      select from users u
      where u.id = case when held.key like 'user:%' then substr(held.key, 6)::uuid end and u.deleted_at is not null
    )
  )`;

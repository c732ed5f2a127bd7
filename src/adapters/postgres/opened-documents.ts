/**
 * Which documents the caller's keys open, by hashes that an index holds: document_totals has a row or some for all that
 * have the same keys, and is exact in every snapshot. They say where to look; who decides is `isReadable`, on the rows.
 * For statements with the values of `readableValues`.
 */
export const openedHashes = 'select acl_hash from document_totals where org_id = :orgId and acl && :acl::text[]';

/**
 * Their ids and active generations, from an index alone; without the offset the planner would rather read all documents.
 * To look many up in: the limit, which nobody whose search is narrow comes near, tells the planner that a hash table of
 * them has room in memory.
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

/** How many documents the caller may read, and how many his organization has. */
export type OpenedCounts = { opened: number; stored: number };

/** More take longer to list than to pass by what is not among them. */
const narrowDocuments = 50_000;
/** Where one in so many may be read, looking each up is as good. */
const narrowShare = 4;

/** Whether a search that wants some of many should know beforehand which documents may be read. */
export function isNarrow({ opened, stored }: OpenedCounts): boolean {
  return opened <= narrowDocuments && opened * narrowShare <= stored;
}

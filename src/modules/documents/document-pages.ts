import type { Knex } from 'knex';
import { type Actor, accessKeysOfActor } from '#src/domain/access/visibility.ts';

/** Estimated number of rows that Postgres reads to find the newest document with one given set of access keys. */
const ROWS_PER_KEY_SEARCH = 10;

/**
 * Selects the ids of one page of the documents that the caller may read, most recently changed first, from indexes
 * alone. Takes the cheaper of two query plans: scan all documents by time and skip unreadable ones, or merge the newest
 * documents of each set of access keys that the caller may read, of which there may be thousands.
 */
export function selectReadableDocumentPage(
  db: Knex,
  actor: Actor,
  { limit, offset }: { limit: number; offset: number },
): Knex.QueryBuilder {
  const documents = 'select d.id, d.updated_at from documents d where d.org_id = :orgId';
  const orderNewestFirst = 'order by updated_at desc, id desc';
  const page = db.raw(
    `(with opened as materialized (
       select acl_hash, sum(documents) as documents
       from document_totals where org_id = :orgId and acl && :acl::text[] group by acl_hash
     ),
     way as materialized (
       select sum(least(documents, :reach) + ${ROWS_PER_KEY_SEARCH})
              < :reach * (select sum(documents) from document_totals where org_id = :orgId) / sum(documents) as is_by_keys
       from opened having sum(documents) > 0
     )
     select id from (
       (${documents} and (d.acl_hash in (select acl_hash from opened)) is true and (select not is_by_keys from way)
        ${orderNewestFirst} limit :reach)
       union all
       select newest.* from opened cross join lateral (
         ${documents} and d.acl_hash = opened.acl_hash and (select is_by_keys from way) ${orderNewestFirst} limit :reach
       ) newest
     ) readable
     ${orderNewestFirst} limit :limit offset :offset) page`,
    { orgId: actor.orgId, acl: accessKeysOfActor(actor), reach: limit + offset, limit, offset },
  );
  return db.from(page).select('id');
}

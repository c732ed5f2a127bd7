import type { Knex } from 'knex';
import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import type { Builder } from './shapes.ts';

/** Narrows a query to the rows of `table` (or its alias) that the caller may read: the one rule, for every list. */
export function readableBy<Query extends Builder>(
  query: Query,
  actor: Pick<Actor, 'userId' | 'orgId' | 'openTeamIds' | 'isOrgAdmin'>,
  table: string,
): Query {
  // The two libraries type the same calls in different ways.
  const builder = query as Knex.QueryBuilder;
  builder.where(`${table}.orgId`, actor.orgId).whereRaw('?? && ?::text[]', [`${table}.acl`, keysOf(actor)]);
  return query;
}

/** The same rule as a condition on documents `d`, of a search in SQL. Its values are `readableValues`. */
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

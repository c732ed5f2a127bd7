import type { Knex } from 'knex';
import { type Actor, keysOf } from '#src/domain/visibility.ts';

/** Narrows a query to the rows of `table` (or its alias) that the caller may read: the one rule, for every list. */
export function readableBy<Query extends Knex.QueryBuilder>(
  query: Query,
  actor: Pick<Actor, 'userId' | 'orgId' | 'teamIds'>,
  table: string,
): Query {
  query.where(`${table}.orgId`, actor.orgId).whereRaw('?? && ?::text[]', [`${table}.acl`, keysOf(actor)]);
  return query;
}

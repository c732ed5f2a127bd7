import type { Knex } from 'knex';
import type { ListPosition } from '#src/contracts/request-data.ts';

/**
 * SQL expression for a row's sort key in a list: the time as text with microseconds, which a JavaScript Date would
 * lose.
 */
export const listSortKeySql = (time: string): string =>
  `to_char(${time} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as sort_key`;

/**
 * Orders a list by time and id, newest first. Reads one row more than `limit`, which shows that there is a next page.
 */
export function orderNewestFirst(
  query: Knex.QueryBuilder,
  options: { time: string; id: string; limit: number; after: ListPosition | null },
): Knex.QueryBuilder {
  const { time, id, limit, after } = options;
  query
    .select(query.client.raw(listSortKeySql('??'), [time]))
    .orderBy([
      { column: time, order: 'desc' },
      { column: id, order: 'desc' },
    ])
    .limit(limit + 1);
  if (after !== null) query.whereRaw('(??, ??) < (?, ?)', [time, id, after.sortKey, after.id]);
  return query;
}

/** Removes the row beyond the page; `last` is the position for the next page, or null if there is none. */
export function toListPage<Row extends ListPosition>(
  rows: Row[],
  limit: number,
): { items: Row[]; last: ListPosition | null } {
  const items = rows.slice(0, limit);
  const final = items.at(-1);
  const last = rows.length > limit && final !== undefined ? { sortKey: final.sortKey, id: final.id } : null;
  return { items, last };
}

import { NIL } from 'uuid';
import type { Db } from '#src/ports/database.ts';

const ROWS_AT_ONCE = 1_000;

/** What `sql` finds after `:after`, ordered by `id`, a page at a time. */
export async function* pagesOf<Row extends { id: string }>(
  db: Db,
  sql: string,
  values: { after: string; [name: string]: string | number } = { after: NIL },
  atOnce = ROWS_AT_ONCE,
): AsyncGenerator<Row[]> {
  for (let { after } = values; ; ) {
    const { rows } = await db.raw<{ rows: Row[] }>(`${sql} order by id limit ${atOnce}`, { ...values, after });
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < atOnce) return;
    after = last.id;
  }
}

export async function countRows(db: Db, table: string, condition = 'true'): Promise<number> {
  const [row] = await db(table).whereRaw(condition).count<{ count: number }[]>();
  return row?.count ?? 0;
}

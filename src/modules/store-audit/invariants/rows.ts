import { NIL } from 'uuid';
import type { Db } from '#src/ports/database.ts';

const ROWS_AT_ONCE = 500;

/** Reads what `sql` finds after `:after`, ordered by `id`, a page at a time. */
export async function eachRow<Row extends { id: string }>(
  db: Db,
  sql: string,
  see: (row: Row) => void | Promise<void>,
): Promise<void> {
  for (let after: string | undefined = NIL; after !== undefined; ) {
    const { rows }: { rows: Row[] } = await db.raw(`${sql} limit ${ROWS_AT_ONCE}`, { after });
    for (const row of rows) await see(row);
    after = rows.length < ROWS_AT_ONCE ? undefined : rows.at(-1)?.id;
  }
}

export async function countRows(db: Db, table: string, condition = 'true'): Promise<number> {
  const [row] = await db(table).whereRaw(condition).count<{ count: number }[]>();
  return row?.count ?? 0;
}

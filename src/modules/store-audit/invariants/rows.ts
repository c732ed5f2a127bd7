import { NIL } from 'uuid';
import { bigint, type Column, type Row, text, uuid } from '#src/adapters/postgres/columns.ts';
import { oneRow, rows, type Shape, shape } from '#src/adapters/postgres/shapes.ts';
import type { Db } from '#src/ports/database.ts';

const ROWS_AT_ONCE = 1_000;

const counted = shape({ count: bigint() });

/** A row with a fault, which its statement words. */
export const faulty = shape({ id: uuid(), orgId: uuid(), fault: text() });

/** The rows that `sql` gives after `:after`, ordered by `id`, a page at a time. */
export async function* pagesOf<S extends Shape & { columns: { id: Column<string> } }>(
  db: Db,
  source: S,
  sql: string,
  values: { after: string; [name: string]: string | number } = { after: NIL },
  atOnce = ROWS_AT_ONCE,
): AsyncGenerator<Row<S>[]> {
  for (let { after } = values; ; ) {
    const page = await rows(db, source, `${sql} order by id limit ${atOnce}`, { ...values, after });
    yield page;
    const id: unknown = page.at(-1)?.id;
    if (typeof id !== 'string' || page.length < atOnce) return;
    after = id;
  }
}

export async function countRows(db: Db, table: string, condition = 'true'): Promise<number> {
  return (await oneRow(db, counted, `select count(*) from ${table} where ${condition}`)).count;
}

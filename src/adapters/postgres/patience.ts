import knex, { type Knex } from 'knex';
import { appError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import type { Row } from './columns.ts';
import { type Bindings, rows, type Shape } from './shapes.ts';

/** Throws `service_unavailable` when a query takes longer than its caller waits; the database gives it up as well. */
export async function within<Row>(patienceMs: number, query: Knex.Raw<{ rows: Row[] }>): Promise<Row[]> {
  try {
    const { rows } = await query.timeout(patienceMs, { cancel: true });
    return rows;
  } catch (error) {
    throw problemOf(error);
  }
}

/** As `rows`. Throws `service_unavailable`, and cancels the statement, when it takes longer than `timeoutMs`. */
export async function rowsWithin<S extends Shape>(
  timeoutMs: number,
  db: Db,
  source: S,
  sql: string,
  bindings: Bindings,
): Promise<Row<S>[]> {
  try {
    return await rows(db, source, sql, bindings, timeoutMs);
  } catch (error) {
    throw problemOf(error);
  }
}

function problemOf(error: unknown): unknown {
  if (!(error instanceof knex.KnexTimeoutError)) return error;
  return appError('service_unavailable', { detail: 'The search took too long.', cause: error });
}

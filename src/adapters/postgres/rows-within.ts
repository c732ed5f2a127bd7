import type { Knex } from 'knex';
import knex from 'knex';
import { appError } from '#src/errors.ts';
import type { Row } from './columns.ts';
import { type Bindings, rows, type Shape } from './shapes.ts';

/** As `rows`. Throws `service_unavailable`, and cancels the statement, when it takes longer than `timeoutMs`. */
export async function rowsWithin<S extends Shape>(
  timeoutMs: number,
  db: Knex,
  source: S,
  sql: string,
  bindings: Bindings,
): Promise<Row<S>[]> {
  try {
    return await rows(db, source, sql, bindings, timeoutMs);
  } catch (error) {
    if (!(error instanceof knex.KnexTimeoutError)) throw error;
    throw appError('service_unavailable', { detail: 'The search took too long.', cause: error });
  }
}

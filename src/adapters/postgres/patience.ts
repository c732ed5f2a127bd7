import knex, { type Knex } from 'knex';
import { appError } from '#src/errors.ts';

/** Throws `service_unavailable` when a query takes longer than its caller waits; the database gives it up as well. */
export async function within<Row>(patienceMs: number, query: Knex.Raw<{ rows: Row[] }>): Promise<Row[]> {
  try {
    const { rows } = await query.timeout(patienceMs, { cancel: true });
    return rows;
  } catch (error) {
    if (!(error instanceof knex.KnexTimeoutError)) throw error;
    throw appError('service_unavailable', { detail: 'The search took too long.', cause: error });
  }
}

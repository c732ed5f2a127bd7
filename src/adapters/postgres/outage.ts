/** Connection refused, cut, or not answered in time. */
const networkCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'ENOTFOUND', 'EHOSTUNREACH']);

/** SQLSTATE: class 08 (connection), 57P01-57P03 (shutting down, starting), 53300 (too many connections). */
const serverStates = /^(?:08...|57P0[123]|53300)$/;

/**
 * What pg says without a code when a connection dies under it, and knex when its pool has none to give. Knex puts the
 * statement before it.
 */
const clientMessages =
  /(?:^| - )(?:Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Knex: Timeout acquiring a connection)/;

/** Says that the database could not be reached, so that asking again later may well succeed. */
export function isOutage(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isOutage);
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return networkCodes.has(code) || serverStates.test(code) || clientMessages.test(error.message);
}

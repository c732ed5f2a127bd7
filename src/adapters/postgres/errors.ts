import { stdSerializers } from 'pino';
import { AppError } from '#src/errors.ts';

const networkCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'ENOTFOUND', 'EHOSTUNREACH']);

/**
 * SQLSTATEs of an outage: class 08 (connection), 57P01-57P03 (shutting down, starting), 53300 (too many connections).
 */
const serverStates = /^(?:08...|57P0[123]|53300)$/;

/**
 * Error messages of outages without a SQLSTATE: pg's for a lost connection, and knex's for an exhausted pool, which
 * follows the SQL statement.
 */
const clientMessages =
  /(?:^| - )(?:Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Knex: Timeout acquiring a connection)/;

export function isDatabaseOutage(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isDatabaseOutage);
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return networkCodes.has(code) || serverStates.test(code) || clientMessages.test(error.message);
}

/** True if a unique index rejected the row. After that, the transaction can only be rolled back. */
export function isUniqueViolation(error: unknown, index: string): boolean {
  if (!(error instanceof Error) || !('code' in error) || !('constraint' in error)) return false;
  return error.code === '23505' && error.constraint === index;
}

/** Fields of a Postgres error that never contain values of a row or a request, unlike `detail` and `where`. */
const loggedFields = ['type', 'message', 'stack', 'code', 'severity', 'schema', 'table', 'column', 'constraint'];

/**
 * Serializes errors for pino without the values that Postgres puts into its errors. An error of the catalogue was expected,
 * and has no stack in the log.
 */
export function toLoggableError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (error instanceof AppError && error.code !== 'internal_error') {
    const cause = error.cause instanceof Error ? toLoggableError(error.cause) : undefined;
    return {
      type: error.name,
      code: error.code,
      message: error.message,
      ...(cause !== undefined && { cause: Object(cause).message }),
    };
  }
  const serialized = Object.entries(stdSerializers.err(error));
  const fields = Object.fromEntries(
    isPostgresError(error) ? serialized.filter(([name]) => loggedFields.includes(name)) : serialized,
  );
  if (error instanceof AggregateError) fields.aggregateErrors = error.errors.map(toLoggableError);
  // pino's serializer appends the messages and stacks of causes, so values are removed from causes, too.
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth += 1) {
    if (!isPostgresError(cause) || !cause.code.startsWith('22')) continue;
    // Errors of SQLSTATE class 22 quote the value: `invalid input syntax for type integer: "…"`.
    fields.message = fields.message.replaceAll(cause.message, `a value was refused (${cause.code})`);
    fields.stack = fields.stack.replaceAll(cause.message, `a value was refused (${cause.code})`);
  }
  return fields;
}

function isPostgresError(error: Error): error is Error & { code: string } {
  return 'severity' in error && 'code' in error && /^[0-9A-Z]{5}$/.test(String(error.code));
}

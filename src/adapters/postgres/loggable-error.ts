import { stdSerializers } from 'pino';

/** Fields of an error of Postgres without values of a row or a request, which `detail`, `where` and others hold. */
const loggedFields = ['type', 'message', 'stack', 'code', 'severity', 'schema', 'table', 'column', 'constraint'];

/** pino's serializer of errors, without the values that Postgres puts into its errors. */
export function loggableError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const serialized = Object.entries(stdSerializers.err(error));
  const fields = Object.fromEntries(
    isPostgresError(error) ? serialized.filter(([name]) => loggedFields.includes(name)) : serialized,
  );
  if (error instanceof AggregateError) fields.aggregateErrors = error.errors.map(loggableError);
  // pino adds the messages and stacks of the causes to those of the error.
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth += 1) {
    if (!isPostgresError(cause) || !cause.code.startsWith('22')) continue;
    // Class 22 quotes the value: `invalid input syntax for type integer: "…"`.
    fields.message = fields.message.replaceAll(cause.message, `a value was refused (${cause.code})`);
    fields.stack = fields.stack.replaceAll(cause.message, `a value was refused (${cause.code})`);
  }
  return fields;
}

function isPostgresError(error: Error): error is Error & { code: string } {
  return 'severity' in error && 'code' in error && /^[0-9A-Z]{5}$/.test(String(error.code));
}

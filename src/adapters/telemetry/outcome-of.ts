import { AppError } from '#src/errors.ts';

/** What a failure is called where it is counted: a code of the catalogue, so that there are few. */
export function outcomeOf(error: unknown): string {
  if (error instanceof AppError) return error.code;
  const name = error instanceof Error ? error.name : '';
  return name === 'AbortError' || name === 'CancelledFailure' ? 'cancelled' : 'internal_error';
}

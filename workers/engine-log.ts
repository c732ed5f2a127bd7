import { ApplicationFailureCategory } from '@temporalio/common';
import type { LogEntry } from '@temporalio/worker';
import type { Logger } from 'pino';

/**
 * Writes what the engine's library logs to our log. A run that failed because of what was uploaded (an encrypted file,
 * a kind that nobody reads) is its user's news: one line, and no warning.
 */
export function writeEngineLog(logger: Logger, { level, message, meta }: LogEntry): void {
  const { error, ...where } = meta ?? {};
  const refusal = expectedRefusal(error);
  if (refusal !== null) logger.info({ ...where, ...refusal }, message);
  else if (level === 'ERROR') logger.error({ ...meta, err: error }, message);
  else logger.warn({ ...meta, err: error }, message);
}

/** By its fields: an error of a workflow is of another realm. */
function expectedRefusal(error: unknown): { code: unknown; reason: unknown } | null {
  if (typeof error !== 'object' || error === null) return null;
  if ('category' in error && error.category === ApplicationFailureCategory.BENIGN && 'type' in error) {
    return { code: error.type, reason: 'message' in error ? error.message : undefined };
  }
  return 'cause' in error ? expectedRefusal(error.cause) : null;
}

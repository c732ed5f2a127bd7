import { AppError, appError } from '#src/errors.ts';

const refusals = ['needs_reauth', 'not_granted', 'provider_rejected', 'remote_file_not_found', 'url_not_allowed'];

/** Says what was wrong with what somebody wants to connect us by; an outage stays one. */
export function checkFailed(error: unknown): never {
  if (!(error instanceof AppError) || !refusals.includes(error.code)) throw error;
  throw appError('connection_check_failed', { detail: error.message });
}

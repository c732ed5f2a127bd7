import { type AppError, appError } from '#src/errors.ts';
import type { ProviderAnswer } from '#src/ports/web.ts';

const maxRetryAfterSeconds = 3_600;

/** What a status says, in our own words: those of a provider may quote the key that it was sent. */
export function statusError(provider: string, { status, headers }: ProviderAnswer): AppError {
  if (status === 401) return appError('needs_reauth');
  if (status === 403) return appError('not_granted', { detail: `${provider} does not allow this to the connection.` });
  if (status === 404) return appError('provider_rejected', { detail: `${provider} knows nothing of this name.` });
  if (status === 429) {
    const seconds = Number(headers.get('retry-after'));
    const isSound = Number.isInteger(seconds) && seconds > 0 && seconds <= maxRetryAfterSeconds;
    const detail = `${provider} takes no more requests for now.`;
    return appError('provider_unavailable', { detail, ...(isSound && { retryAfterSeconds: seconds }) });
  }
  if (status >= 400 && status < 500) {
    return appError('provider_rejected', { detail: `${provider} does not take what it is asked for.` });
  }
  return appError('provider_unavailable', { detail: `${provider} answers ${status}.` });
}

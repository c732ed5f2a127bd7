import { S3ServiceException } from '@aws-sdk/client-s3';
import { type AppError, appError } from '#src/errors.ts';

/** Neither are we let in again by waiting, nor does the bucket come to be. */
const refusals = new Set([301, 400, 401, 403, 405]);

/** What the store said, or how it failed: without the request, which is signed with our key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

/**
 * - refused keys, a bucket that is not there or elsewhere: `blob_store_refused`, somebody has to act.
 * - everything else (408, 429, 5xx, network, timeouts): `service_unavailable`, which is waited for.
 */
export function toAppError(error: unknown): AppError {
  const cause = new S3Error(wordsOf(error));
  if (isRefusal(error)) {
    return appError('blob_store_refused', { detail: 'The store of the files refuses us; tell the operator.', cause });
  }
  const detail = 'The store of the files is not reachable.';
  return appError('service_unavailable', { detail, retryAfterSeconds: 5, cause });
}

/** An object that is not there. The answer to a HEAD has no body that could say what is not. */
export function isMissing(error: unknown): boolean {
  return error instanceof S3ServiceException && ['NoSuchKey', 'NotFound'].includes(error.name);
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof S3ServiceException)) return false;
  // A clock that is off, or a body that came too slowly: the next request may be in time.
  if (['RequestTimeTooSkewed', 'RequestTimeout'].includes(error.name)) return false;
  return error.name === 'NoSuchBucket' || refusals.has(error.$metadata.httpStatusCode ?? 0);
}

function wordsOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(wordsOf).join(', ');
  if (!(error instanceof Error)) return String(error);
  const status = error instanceof S3ServiceException ? ` (${error.$metadata.httpStatusCode})` : '';
  return `${error.name}${status}: ${error.message}`.slice(0, 1_000);
}

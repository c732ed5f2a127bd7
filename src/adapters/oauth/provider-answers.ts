import * as openid from 'openid-client';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { ProviderCaller } from '#src/ports/web.ts';

/** How the library asks a provider: by a caller that knows whom it may ask, and for how long. */
export function fetchBy(call: ProviderCaller): openid.CustomFetch {
  return async (url, { method, headers, body, signal }) => {
    const answer = await call(url, {
      method: method === 'GET' ? 'GET' : 'POST',
      headers,
      ...(body !== undefined && body !== null && { body: String(body) }),
      ...(signal !== undefined && { signal }),
    });
    // A status that may have no body takes none.
    const isEmpty = [204, 205, 304].includes(answer.status);
    return new Response(isEmpty ? null : answer.body, { status: answer.status, headers: answer.headers });
  };
}

/**
 * Why a provider gave no tokens: without the cause, which quotes it, since its answer may quote what it was sent. An
 * error of our own comes back as it is.
 * @param ofGrant when the code or the token is not taken
 */
export function failureOf(error: unknown, ofGrant: ErrorCode): unknown {
  if (error instanceof Error && error.cause instanceof AppError) return error.cause;
  if (!failuresOfCalls.some((kind) => error instanceof kind)) return error;
  const { status, word } = refusalOf(error);
  if (word === 'invalid_grant') return appError(ofGrant);
  if (status === 401 || faultsOfClient.includes(word)) return appError('provider_not_configured');
  if (status !== null) return appError('provider_rejected', { detail: 'It refuses what it is asked for.' });
  return appError('provider_unavailable', { detail: 'It does not answer as a provider of tokens does.' });
}

/** What the library throws for a call that it has made; for one that it cannot make it throws a TypeError. */
const failuresOfCalls = [
  openid.ClientError,
  openid.ResponseBodyError,
  openid.AuthorizationResponseError,
  openid.WWWAuthenticateChallengeError,
];

/** Of RFC 6749, and Google's for a redirect address that nobody has registered. */
const faultsOfClient = ['invalid_client', 'unauthorized_client', 'redirect_uri_mismatch'];

/** What a provider refuses with, in a 4xx; null for whatever else went wrong. */
function refusalOf(error: unknown): { status: number | null; word: string } {
  const isAnswered = error instanceof openid.ResponseBodyError || error instanceof openid.WWWAuthenticateChallengeError;
  const answer = isAnswered ? error : error instanceof openid.ClientError ? error.cause : null;
  const status: unknown = Object(answer).status;
  if (typeof status !== 'number' || status < 400 || status >= 500 || status === 429) return { status: null, word: '' };
  return { status, word: error instanceof openid.ResponseBodyError ? error.error : '' };
}

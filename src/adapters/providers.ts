import { Transform } from 'node:stream';
import { type AppError, appError } from '#src/errors.ts';
import type { OAuthProvider } from '#src/ports/identity.ts';
import type { ProviderHttpResponse } from '#src/ports/web.ts';

export function googleOAuthProvider(baseUrl: string | null, client: OAuthProvider['client']): OAuthProvider {
  return {
    issuer: baseUrl ?? 'https://accounts.google.com',
    authorizeUrl: `${baseUrl ?? 'https://accounts.google.com'}/o/oauth2/v2/auth`,
    tokenUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/token`,
    revokeUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/revoke`,
    client,
    // With these parameters, Google returns a refresh token; without them, it does not.
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  };
}

export function parseProviderJson(provider: string, { body }: ProviderHttpResponse): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw invalidProviderResponseError(provider);
  }
}

export function invalidProviderResponseError(provider: string): AppError {
  return appError('provider_unavailable', { detail: `The answer of ${provider} has an unexpected format.` });
}

export function recordOrEmptyObject(value: unknown): Readonly<Record<string, unknown>> {
  return isPlainObject(value) ? value : {};
}

export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function arrayOrEmptyArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function textOrEmptyString(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

const maxRetryAfterSeconds = 3_600;

/** Maps a provider's status to an error code. Drops its message, which may quote the API key. */
export function providerStatusError(provider: string, { status, headers }: ProviderHttpResponse): AppError {
  if (status === 401) return appError('needs_reauth');
  if (status === 403)
    return appError('not_granted', { detail: `The connected account does not permit this action at ${provider}.` });
  if (status === 404)
    return appError('provider_rejected', { detail: `${provider} did not find the requested resource.` });
  if (status === 429) {
    const seconds = Number(headers.get('retry-after'));
    const isSound = Number.isInteger(seconds) && seconds > 0 && seconds <= maxRetryAfterSeconds;
    const detail = `${provider} limits the rate of requests.`;
    return appError('provider_unavailable', { detail, ...(isSound && { retryAfterSeconds: seconds }) });
  }
  if (status >= 400 && status < 500) {
    return appError('provider_rejected', { detail: `${provider} rejects the request.` });
  }
  return appError('provider_unavailable', { detail: `${provider} answers ${status}.` });
}

/** Pieces of a body are joined at this number: one-byte pieces take a hundred times the memory of the body. */
const maxPieces = 1_024;

/** Reads a whole body. Returns null, and closes the connection, if it is larger than `limitBytes`. */
export async function readResponseBody(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer | null> {
  const { bytes, isWhole } = await readUpTo(body, limitBytes);
  return isWhole ? bytes : null;
}

export async function readResponseBodyStart(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  return (await readUpTo(body, limitBytes)).bytes.subarray(0, limitBytes);
}

async function readUpTo(body: AsyncIterable<Uint8Array>, limitBytes: number) {
  let pieces: Uint8Array[] = [];
  let sizeBytes = 0;
  // Leaving the loop early destroys the body, which closes the connection.
  for await (const piece of body) {
    pieces.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes > limitBytes) return { bytes: Buffer.concat(pieces), isWhole: false };
    if (pieces.length === maxPieces) pieces = [Buffer.concat(pieces)];
  }
  return { bytes: Buffer.concat(pieces), isWhole: true };
}

export function limitStreamSize(limitBytes: number, tooLarge: () => Error): Transform {
  let sizeBytes = 0;
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      sizeBytes += piece.length;
      if (sizeBytes > limitBytes) done(tooLarge());
      else done(null, piece);
    },
  });
}

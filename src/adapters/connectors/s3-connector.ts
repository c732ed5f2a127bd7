import { Readable } from 'node:stream';
import {
  GetObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { type Dispatcher, request as send } from 'undici';
import { readResponseBody } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type {
  Connector,
  ConnectorAccess,
  RemoteFile,
  RemoteFileQuery,
  S3ConnectorAccess,
} from '#src/ports/connectors.ts';
import { folderMediaType, limitDownloadSizeAndTime, maxDownloadMs, parseRetryAfterSeconds } from './provider-api.ts';

/** Objects per page of a listing, so that a page fits in `maxAnswerBytes`. */
const pageSize = 300;
/**
 * S3's maximum page size. A longer page, even from a store that ignores `max-keys`, is rejected as not sent by an S3
 * API.
 */
const maxEntries = 1_000;
const defaultPauseSeconds = 5;

/** S3 error codes for invalid keys. A missing permission (`AccessDenied`) is not one of them. */
const invalidKeyCodes = [
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidToken',
  'InvalidClientTokenId',
  'TokenRefreshRequired',
  'AccountProblem',
];

type Objects = { files: RemoteFile[]; nextPage: string | null; isThere: boolean };

/**
 * Connects S3 with access keys: objects of a bucket are files, and slashes in their keys make folders. The id of a file
 * is its key after the connection's prefix, and the id of a folder ends with a slash: a renamed object is a new file.
 */
export function createS3Connector(deps: {
  agent: Dispatcher;
  baseUrl: string | null;
  deadlineMs?: number;
  silenceMs?: number;
  downloadMs?: number;
}): Connector {
  const { baseUrl, downloadMs: longestMs = maxDownloadMs } = deps;
  const requestHandler = createGuardedS3Handler(deps);

  async function call<Result>(
    access: ConnectorAccess,
    ask: (client: S3Client, keys: S3ConnectorAccess) => Promise<Result>,
  ) {
    if (access.kind !== 'keys') throw new TypeError('S3 is connected with access keys, not by OAuth');
    const { accessKeyId, secretAccessKey, sessionToken, region, forcePathStyle } = access;
    const endpoint = access.endpoint ?? baseUrl;
    const client = new S3Client({
      region,
      ...(endpoint !== null && { endpoint }),
      forcePathStyle,
      credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== null && { sessionToken }) },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      // The SDK must not retry: imports retry by themselves and respect `Retry-After`.
      maxAttempts: 1,
      requestHandler,
    });
    try {
      return await ask(client, access);
    } catch (error) {
      throw errorOf(error, access);
    }
  }

  async function listObjects(
    client: S3Client,
    { bucket, prefix }: S3ConnectorAccess,
    wanted: Partial<ListObjectsV2CommandInput>,
  ) {
    const answer = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ...wanted }));
    const { CommonPrefixes = [], Contents = [], Name, KeyCount, NextContinuationToken: nextPage = null } = answer;
    const isListing = Name !== undefined || KeyCount !== undefined || Contents.length > 0;
    if (!isListing || CommonPrefixes.length + Contents.length > maxEntries) throw notS3();
    return { prefixes: CommonPrefixes, objects: Contents, nextPage };
  }

  async function children(access: ConnectorAccess, folderId: string, page: string | null): Promise<Objects> {
    return call(access, async (client, keys) => {
      const Prefix = keys.prefix + folderId;
      const { prefixes, objects, nextPage } = await listObjects(client, keys, {
        ...{ Prefix, Delimiter: '/', MaxKeys: pageSize },
        ...(page !== null && { ContinuationToken: page }),
      });
      const below = (key: string) => key.slice(keys.prefix.length);
      const folders = prefixes.map(({ Prefix: key = '' }) => folderOf(below(key)));
      const files = objects
        .filter(({ Key }) => Key !== Prefix)
        .map((object) => fileOf(below(object.Key ?? ''), object));
      return { files: [...folders, ...files], nextPage, isThere: prefixes.length + objects.length > 0 };
    });
  }

  async function first(access: ConnectorAccess, start: string) {
    return call(access, async (client, keys) => {
      const { objects } = await listObjects(client, keys, { Prefix: keys.prefix + start, MaxKeys: 1 });
      return objects[0];
    });
  }

  /** Finds an object by a listing, because the response to a HEAD request has no error code. */
  async function findFile(access: ConnectorAccess, key: string): Promise<RemoteFile | undefined> {
    const prefix = access.kind === 'keys' ? access.prefix : '';
    const object = await first(access, key);
    return object?.Key === prefix + key ? fileOf(key, object) : undefined;
  }

  async function findFolder(access: ConnectorAccess, folderId: string): Promise<RemoteFile | undefined> {
    const isThere = folderId === '' || (await first(access, folderId)) !== undefined;
    return isThere ? folderOf(folderId) : undefined;
  }

  return {
    provider: 'acme_s3',

    async check(access) {
      return call(access, async (client, keys) => {
        const { bucket, prefix, endpoint } = keys;
        await listObjects(client, keys, { MaxKeys: 1 }).catch((error: unknown) => {
          // The access keys lack the permission to list objects, so the user has to connect other keys.
          throw error instanceof S3ServiceException && error.name === 'AccessDenied'
            ? appError('needs_reauth', { detail: reasonOf(error, error.$metadata.httpStatusCode ?? 0) })
            : error;
        });
        return { accountId: `${endpoint ?? baseUrl ?? ''} ${bucket}/${prefix}`, accountName: bucket };
      });
    },

    async list(access, { fileId, path }, page) {
      const folderId = fileId ?? (path === '' ? '' : `${path}/`);
      const { files, nextPage, isThere } = await children(access, folderId, page);
      if (!isThere && folderId !== '' && page === null) throw appError('remote_file_not_found');
      return { files, nextPage };
    },

    async find(access, wanted) {
      const key = keyOf(wanted);
      const isFolder = key === '' || key.endsWith('/');
      const found = isFolder
        ? await findFolder(access, key)
        : ((await findFile(access, key)) ?? (await findFolder(access, `${key}/`)));
      if (found === undefined) throw appError('remote_file_not_found');
      return found;
    },

    async download(access, file, { limitBytes, signal }) {
      return call(access, async (client, { bucket, prefix }) => {
        const wanted = new GetObjectCommand({ Bucket: bucket, Key: prefix + file.fileId });
        const { Body, ContentLength = 0, ContentType, ETag } = await client.send(wanted, { abortSignal: signal });
        if (!(Body instanceof Readable)) throw new TypeError('the response of the S3 endpoint has no body');
        return {
          content: limitDownloadSizeAndTime(Body, { announcedBytes: ContentLength, limitBytes, longestMs }),
          mediaType: ContentType ?? file.mimeType,
          fileName: file.name,
          revision: revisionOf(ETag),
        };
      }).catch((error: unknown) => {
        throw signal.aborted ? signal.reason : error;
      });
    },

    changes: null,
    revoke: null,
  };
}

function keyOf({ fileId, path, name = '', folder = '' }: RemoteFileQuery): string {
  if (fileId !== undefined) return fileId;
  return path ?? (folder === '' ? name : `${folder}/${name}`);
}

function fileOf(key: string, object: { Size?: number | undefined; ETag?: string | undefined }): RemoteFile {
  return {
    fileId: key,
    name: nameOf(key),
    path: key,
    mimeType: 'application/octet-stream',
    sizeBytes: object.Size ?? null,
    isFolder: false,
    revision: revisionOf(object.ETag),
  };
}

function folderOf(folderId: string): RemoteFile {
  const path = folderId.replace(/\/$/, '');
  return {
    fileId: folderId,
    name: nameOf(path),
    path,
    mimeType: folderMediaType,
    sizeBytes: null,
    isFolder: true,
    revision: '',
  };
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function revisionOf(tag = ''): string {
  return tag.replaceAll('"', '');
}

/**
 * Maps an error of the SDK to an error code. The SDK's error itself is dropped, because it contains the signed request.
 */
function errorOf(error: unknown, { accessKeyId }: S3ConnectorAccess): AppError {
  if (error instanceof AppError) return error;
  const { $response: response, $metadata: metadata } = Object(error);
  const status = Number(response?.statusCode ?? metadata?.httpStatusCode ?? 0);
  if (status === 0)
    return appError('provider_unavailable', { detail: 'The S3 endpoint does not respond, or closed the connection.' });
  if (status < 300) return notS3();
  const name = error instanceof S3ServiceException ? error.name : 'Unknown';
  const detail = reasonOf(error, status).replaceAll(accessKeyId, '…');
  if (name === 'NoSuchKey') return appError('remote_file_not_found');
  if (invalidKeyCodes.includes(name) || status === 401) return appError('needs_reauth', { detail });
  if (status === 429 || status === 503) {
    const asked = parseRetryAfterSeconds(response?.headers?.['retry-after'] ?? '');
    return appError('provider_throttled', { retryAfterSeconds: asked ?? defaultPauseSeconds });
  }
  // A clock error or a request that arrived too slowly is temporary: a retry may succeed.
  const isFault = status >= 500 || status === 408 || name === 'RequestTimeTooSkewed';
  return isFault ? appError('provider_unavailable') : appError('provider_rejected', { detail });
}

/** Describes an S3 error for the user. If the response has no error code, the message of the SDK is `UnknownError`. */
function reasonOf(error: unknown, status: number): string {
  if (!(error instanceof S3ServiceException) || error.message === 'UnknownError')
    return `The S3 endpoint responded with ${status}.`;
  return `${error.name}: ${error.message}`.slice(0, 300);
}

type S3Request = {
  method: string;
  protocol: string;
  hostname: string;
  port?: number;
  path: string;
  query?: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: unknown;
};
type S3Response = { statusCode: number; headers: Record<string, string>; body: Readable };

/** Time limit for a whole S3 response; for an object, only for its headers. */
const defaultDeadlineMs = 10_000;
const defaultSilenceMs = 30_000;
/**
 * Size limit of an S3 response. Together with the limits below, it keeps the SDK's parser, which runs on the main
 * thread, below 100 ms of CPU time. A page of 300 objects with keys of 1,024 bytes fits in, and one of 1,000 objects
 * with shorter keys.
 */
const maxAnswerBytes = 512 * 1024;
const maxTags = 30_000;
/** Limit of `=` signs in a listing, which bounds its XML attributes. S3 sends one or two; keys may have more. */
const maxEqualsSigns = 10_000;

/** HTTP handler of the S3 SDK with the SSRF guard. Streams objects; reads other responses within the limits above. */
function createGuardedS3Handler(deps: { agent: Dispatcher; deadlineMs?: number; silenceMs?: number }) {
  const { agent, deadlineMs = defaultDeadlineMs, silenceMs = defaultSilenceMs } = deps;
  return {
    async handle(
      request: S3Request,
      { abortSignal }: { abortSignal?: unknown } = {},
    ): Promise<{ response: S3Response }> {
      const { host: _, ...headers } = request.headers;
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), deadlineMs);
      const signals = [deadline.signal, ...(abortSignal instanceof AbortSignal ? [abortSignal] : [])];
      try {
        const {
          statusCode,
          headers: answered,
          body,
        } = await send(urlOf(request), {
          dispatcher: agent,
          method: request.method as Dispatcher.HttpMethod,
          headers,
          bodyTimeout: silenceMs,
          signal: AbortSignal.any(signals),
        });
        const one = Object.entries(answered).map(([name, value]): [string, string] => [
          name,
          [value].flat().join(', '),
        ]);
        const isObject = request.query?.['x-id'] === 'GetObject' && statusCode < 300;
        const content = isObject ? body : Readable.from([await readAnswer(body, statusCode)]);
        return { response: { statusCode, headers: Object.fromEntries(one), body: content } };
      } catch (error) {
        if (deadline.signal.aborted)
          throw unavailable(`The S3 endpoint did not respond within ${deadlineMs / 1_000} seconds.`);
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    httpHandlerConfigs: () => ({}),
    updateHttpClientConfig() {},
    destroy() {},
  };
}

async function readAnswer(body: Readable, statusCode: number): Promise<Buffer> {
  const bytes = await readResponseBody(body, maxAnswerBytes);
  if (bytes === null || hasMore(bytes, '<', maxTags) || hasMore(bytes, '=', maxEqualsSigns)) {
    throw unavailable('The response of the S3 endpoint is too large.');
  }
  // Rejects a response with a document type declaration, because it is an HTML page: S3 sends no such declaration, and
  // the SDK's parser takes quadratic time for many of them.
  if (!/<!doctype/i.test(bytes.toString('latin1'))) return bytes;
  if (statusCode >= 300) return Buffer.alloc(0);
  throw notS3();
}

function hasMore(bytes: Buffer, sign: string, limit: number): boolean {
  let at = -1;
  for (let count = 0; count <= limit; count += 1) {
    at = bytes.indexOf(sign, at + 1);
    if (at < 0) return false;
  }
  return true;
}

function notS3() {
  return unavailable('The endpoint does not respond like an S3 server. Check its URL.');
}

function unavailable(detail: string) {
  return appError('provider_unavailable', { detail });
}

function urlOf({ protocol, hostname, port, path, query = {} }: S3Request): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((each) => (each === null ? escaped(name) : `${escaped(name)}=${escaped(each)}`)),
  );
  const place = port === undefined ? hostname : `${hostname}:${port}`;
  return `${protocol}//${place}${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`;
}

function escaped(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

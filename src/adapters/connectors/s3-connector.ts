import { Readable } from 'node:stream';
import {
  GetObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import type { Dispatcher } from 'undici';
import { AppError, appError } from '#src/errors.ts';
import type { Connector, ConnectorAccess, KeyAccess, RemoteFile, RemoteFileQuery } from '#src/ports/connectors.ts';
import { createGuardedS3Handler, notS3 } from './guarded-s3-handler.ts';
import { limited, longestDownloadMs } from './open-content.ts';
import { pauseSecondsOf } from './provider-api.ts';

const folderType = 'application/x-directory';
/** What is asked for in one page; see the limit of an answer in `guarded-s3-handler.ts`. */
const pageSize = 300;
/** S3's own limit of a page, for stores that ignore `max-keys`. */
const maxEntries = 1_000;
/** Where a store asks for a pause and does not say of what length. */
const pauseSeconds = 5;

/** Words for keys that are not taken, whatever is asked. A right that is missing is another matter. */
const refusedKeys = [
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
 * Objects of a bucket as files, by the slashes of their keys. The id of a file is its key behind the connection's
 * prefix, that of a folder ends with a slash; so what is renamed is another file.
 */
export function createS3Connector(deps: {
  agent: Dispatcher;
  baseUrl: string | null;
  deadlineMs?: number;
  silenceMs?: number;
  downloadMs?: number;
}): Connector {
  const { baseUrl, downloadMs: longestMs = longestDownloadMs } = deps;
  const requestHandler = createGuardedS3Handler(deps);

  async function call<Result>(access: ConnectorAccess, ask: (client: S3Client, keys: KeyAccess) => Promise<Result>) {
    if (access.kind !== 'keys') throw new TypeError('S3 is connected by keys');
    const { accessKeyId, secretAccessKey, sessionToken, region, forcePathStyle } = access;
    const endpoint = access.endpoint ?? baseUrl;
    const client = new S3Client({
      region,
      ...(endpoint !== null && { endpoint }),
      forcePathStyle,
      credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== null && { sessionToken }) },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      // Whoever calls knows how long it may wait, and that it was asked to.
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
    { bucket, prefix }: KeyAccess,
    wanted: Partial<ListObjectsV2CommandInput>,
  ) {
    const answer = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ...wanted }));
    const { CommonPrefixes = [], Contents = [], Name, KeyCount, NextContinuationToken: nextPage = null } = answer;
    const isListing = Name !== undefined || KeyCount !== undefined || Contents.length > 0;
    if (!isListing || CommonPrefixes.length + Contents.length > maxEntries) throw notS3();
    return { prefixes: CommonPrefixes, objects: Contents, nextPage };
  }

  /** What is immediately below a key that ends with a slash, or at the top. */
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

  /** By a list, whose refusals have words; it begins with the key itself where that is there. */
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
          // Without this right there is nothing that the keys are good for.
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
        if (!(Body instanceof Readable)) throw new TypeError('the answer of the store has no body');
        return {
          content: limited(Body, { announcedBytes: ContentLength, limitBytes, longestMs }),
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
    mimeType: folderType,
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

/** Without the request, which is signed. */
function errorOf(error: unknown, { accessKeyId }: KeyAccess): AppError {
  if (error instanceof AppError) return error;
  const { $response: response, $metadata: metadata } = Object(error);
  const status = Number(response?.statusCode ?? metadata?.httpStatusCode ?? 0);
  if (status === 0) return appError('provider_unavailable', { detail: 'The store does not answer, or breaks off.' });
  // The client could not parse it.
  if (status < 300) return notS3();
  const name = error instanceof S3ServiceException ? error.name : 'Unknown';
  const detail = reasonOf(error, status).replaceAll(accessKeyId, '…');
  if (name === 'NoSuchKey') return appError('remote_file_not_found');
  if (refusedKeys.includes(name) || status === 401) return appError('needs_reauth', { detail });
  if (status === 429 || status === 503) {
    const asked = pauseSecondsOf(response?.headers?.['retry-after'] ?? '');
    return appError('provider_throttled', { retryAfterSeconds: asked ?? pauseSeconds });
  }
  // A clock that is off, or a request that came too slowly: the next may be in time.
  const isFault = status >= 500 || status === 408 || name === 'RequestTimeTooSkewed';
  return isFault ? appError('provider_unavailable') : appError('provider_rejected', { detail });
}

/** `UnknownError` is the client's word for a refusal without one. */
function reasonOf(error: unknown, status: number): string {
  if (!(error instanceof S3ServiceException) || error.message === 'UnknownError') return `It answers ${status}.`;
  return `${error.name}: ${error.message}`.slice(0, 300);
}

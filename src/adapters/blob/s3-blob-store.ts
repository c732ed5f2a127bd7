import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  paginateListObjectsV2,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import pLimit from 'p-limit';
import { attachmentContentDisposition } from '#src/domain/text/content-disposition.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { BlobStore, StoredBlob } from '#src/ports/blob-store.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { requireValidBlobKey, toStorageError, writeUploadFile } from './upload-file.ts';

const refusals = new Set([301, 400, 401, 403, 405]);

/** Keeps the message of an S3 error and drops the request, which is signed with the deployment's key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

/**
 * Maps errors of the S3 client: wrong keys, or a bucket that is missing or in another region, become
 * `blob_store_refused`, which needs an operator. Everything else (408, 429, 5xx, network, timeouts) becomes
 * `service_unavailable`, which is retried.
 */
function toAppError(error: unknown): AppError {
  const cause = new S3Error(describeError(error));
  if (isRefusal(error)) {
    return appError('blob_store_refused', {
      detail: 'The file store rejects the credentials or the bucket of this service; tell the operator.',
      cause,
    });
  }
  const detail = 'The store of the files is not reachable.';
  return appError('service_unavailable', { detail, retryAfterSeconds: 5, cause });
}

/** The response to a HEAD has no body, so the SDK names the error `NotFound` instead of `NoSuchKey`. */
function isMissing(error: unknown): boolean {
  return error instanceof S3ServiceException && ['NoSuchKey', 'NotFound'].includes(error.name);
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof S3ServiceException)) return false;
  // A clock error or a body that arrived too slowly is temporary: a retry may succeed.
  if (['RequestTimeTooSkewed', 'RequestTimeout'].includes(error.name)) return false;
  return error.name === 'NoSuchBucket' || refusals.has(error.$metadata.httpStatusCode ?? 0);
}

function describeError(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describeError).join(', ');
  if (!(error instanceof Error)) return String(error);
  const status = error instanceof S3ServiceException ? ` (${error.$metadata.httpStatusCode})` : '';
  return `${error.name}${status}: ${error.message}`.slice(0, 1_000);
}

const CONNECT_TIMEOUT_MS = 3_000;
/** Timeout for a socket on which no byte is sent or received; long, because a copy within the store takes a while. */
const SOCKET_TIMEOUT_MS = 30_000;
const ATTEMPTS = 3;
/** S3's minimum size of a multipart part, except for the last part. */
const PART_BYTES = 5 * 1024 ** 2;
/**
 * Limits of concurrent uploads to the store: at most 4 × 2 parts of large files and 8 small files are in memory. The
 * limits are separate so that small files do not wait for large ones.
 */
const LARGE_UPLOADS = 4;
const PARTS_PER_UPLOAD = 2;
const SMALL_UPLOADS = 8;
/** Limit of the bytes in `tempDir`, below `temporaryStorage` of the Helm chart: Kubernetes evicts a pod above that. */
const MAX_WAITING_BYTES = 48 * 1024 ** 3;
/** A staging object is a stray after 24 hours, which is longer than any upload. */
const STRAY_AFTER_MS = 24 * 60 * 60_000;

type S3Settings = {
  endpoint: string | null;
  region: string;
  bucket: string;
  prefix: string;
  accessKeyId: string;
  secretAccessKey: string;
};

/**
 * Stores originals as objects of a bucket. A file is received into `tempDir` first, so that slow clients hold no memory
 * and the bucket gets no part of a refused file. It is then uploaded to a staging object and copied to its key within
 * the store. `deleteStrays` deletes staging objects that a crash left.
 */
export function createS3BlobStore(
  settings: S3Settings & { tempDir: string; strayAfterMs?: number; maxWaitingBytes?: number },
): BlobStore {
  const { endpoint, region, bucket: Bucket, prefix, accessKeyId, secretAccessKey, tempDir } = settings;
  const { strayAfterMs = STRAY_AFTER_MS, maxWaitingBytes = MAX_WAITING_BYTES } = settings;
  let waitingBytes = 0;
  const client = new S3Client({
    region,
    ...(endpoint !== null && { endpoint, forcePathStyle: true }),
    credentials: { accessKeyId, secretAccessKey },
    // Not every S3-compatible store supports the SDK's default checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SOCKET_TIMEOUT_MS,
      // The number of sockets is not limited: slow downloads occupy sockets, and waiting for a free one would count as
      // a connection timeout.
      httpAgent: { maxSockets: Number.POSITIVE_INFINITY },
      httpsAgent: { maxSockets: Number.POSITIVE_INFINITY },
    },
  });
  const largeUploads = pLimit(LARGE_UPLOADS);
  const smallUploads = pLimit(SMALL_UPLOADS);
  const incoming = `${prefix}incoming/`;
  const objects = `${prefix}objects/`;
  const objectOf = (key: string) => ({ Bucket, Key: objects + requireValidBlobKey(key) });
  const stagedOf = (stagingKey: string) => ({ Bucket, Key: incoming + requireValidBlobKey(stagingKey) });

  const missing = (key: string) => (error: unknown) => {
    throw isMissing(error)
      ? appError('blob_missing', { cause: new Error(`blob ${key} does not exist`) })
      : toAppError(error);
  };
  const failing = (error: unknown) => {
    throw toAppError(error);
  };

  async function exists(key: string): Promise<boolean> {
    try {
      await client.send(new HeadObjectCommand(objectOf(key)));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw toAppError(error);
    }
  }

  async function read(key: string, range?: { start: number; end: number }): Promise<Readable> {
    const Range = range && { Range: `bytes=${range.start}-${range.end}` };
    const { Body } = await client.send(new GetObjectCommand({ ...objectOf(key), ...Range })).catch(missing(key));
    if (Body instanceof Readable) return Body;
    throw new TypeError('the response of the S3 store has no body');
  }

  const unstage = async (stagingKey: string): Promise<void> => {
    await client.send(new DeleteObjectCommand(stagedOf(stagingKey))).catch(failing);
  };

  async function upload(target: { Bucket: string; Key: string }, path: string, sizeBytes: number): Promise<void> {
    const limit = sizeBytes > PART_BYTES ? largeUploads : smallUploads;
    await limit(async () => {
      const params = { ...target, Body: createReadStream(path) };
      // With `leavePartsOnError`, the SDK does not abort a failed upload: an error of its abort would hide the upload's
      // own error.
      const options = { partSize: PART_BYTES, queueSize: PARTS_PER_UPLOAD, leavePartsOnError: true };
      const parts = new Upload({ client, params, ...options });
      try {
        await parts.done();
      } catch (error) {
        const { uploadId: UploadId } = parts;
        // If this abort fails, `deleteStrays` aborts the multipart upload later.
        if (UploadId !== undefined) {
          await client.send(new AbortMultipartUploadCommand({ ...target, UploadId })).catch(() => undefined);
        }
        throw error;
      }
    });
  }

  async function* counted(content: AsyncIterable<Buffer>, waiting: { bytes: number }): AsyncGenerator<Buffer> {
    for await (const piece of content) {
      waiting.bytes += piece.length;
      waitingBytes += piece.length;
      if (waitingBytes > maxWaitingBytes) {
        const detail = 'The files that wait for their upload to S3 take all temporary storage.';
        throw appError('service_unavailable', { detail, retryAfterSeconds: 60 });
      }
      yield piece;
    }
  }

  async function abortStrayUploads(isStray: (since: Date | undefined) => boolean): Promise<number> {
    let aborted = 0;
    for (let after: { KeyMarker?: string; UploadIdMarker?: string } = {}; ; ) {
      const page = await client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: incoming, ...after }));
      for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
        if (!isStray(Initiated)) continue;
        await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
        aborted += 1;
      }
      const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page;
      if (!page.IsTruncated || KeyMarker === undefined) return aborted;
      after = { KeyMarker, ...(UploadIdMarker !== undefined && { UploadIdMarker }) };
    }
  }

  return {
    exists,
    read,
    unstage,

    async stage(input) {
      const stagingKey = randomUUID();
      const directory = await makeTemporaryFolder(tempDir, 'upload').catch((error: unknown) => {
        throw toStorageError(error);
      });
      const waiting = { bytes: 0 };
      try {
        const path = join(directory, 'file');
        const { limitBytes } = input;
        const file = { content: counted(input.content, waiting), limitBytes };
        const measured = await writeUploadFile(path, file, { flush: false }).catch((error: unknown) => {
          throw toStorageError(error);
        });
        await upload(stagedOf(stagingKey), path, measured.sizeBytes).catch(failing);
        return { stagingKey, ...measured };
      } finally {
        await rm(directory, { recursive: true, force: true });
        waitingBytes -= waiting.bytes;
      }
    },

    async promote(stagingKey, key) {
      const { Key } = stagedOf(stagingKey);
      const copy = new CopyObjectCommand({ ...objectOf(key), CopySource: `${Bucket}/${Key}` });
      try {
        await client.send(copy);
      } catch (error) {
        // A retry finds the object at its key, because an earlier attempt was interrupted after the copy.
        if (isMissing(error) && (await exists(key))) return;
        throw toAppError(error);
      }
      await unstage(stagingKey);
    },

    async withLocalFile(key, use) {
      const directory = await makeTemporaryFolder(tempDir, 'original');
      try {
        const path = join(directory, 'file');
        const content = await read(key);
        await pipeline(content, createWriteStream(path)).catch(failing);
        return await use(path);
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    },

    async delete(key, signal) {
      await client.send(new DeleteObjectCommand(objectOf(key)), signal && { abortSignal: signal }).catch(failing);
    },

    async list({ after, limit }) {
      const found: StoredBlob[] = [];
      const query = { Bucket, Prefix: objects, ...(after !== null && { StartAfter: objects + after }) };
      try {
        for await (const page of paginateListObjectsV2({ client }, query)) {
          for (const { Key = '', Size = 0, LastModified = new Date() } of page.Contents ?? []) {
            found.push({ key: Key.slice(objects.length), sizeBytes: Size, storedAt: LastModified });
          }
          if (found.length >= limit) break;
        }
      } catch (error) {
        throw toAppError(error);
      }
      return found.slice(0, limit);
    },

    async deleteStrays() {
      const isStray = (since: Date | undefined) => since !== undefined && Date.now() - since.getTime() > strayAfterMs;
      let deleted = 0;
      try {
        for await (const page of paginateListObjectsV2({ client }, { Bucket, Prefix: incoming })) {
          for (const { Key, LastModified } of page.Contents ?? []) {
            if (!isStray(LastModified)) continue;
            await client.send(new DeleteObjectCommand({ Bucket, Key }));
            deleted += 1;
          }
        }
        return deleted + (await abortStrayUploads(isStray));
      } catch (error) {
        throw toAppError(error);
      }
    },

    async signedUrl(key, { fileName, mediaType, expiresInSeconds }) {
      const answer = {
        ResponseContentDisposition: attachmentContentDisposition(fileName),
        ResponseContentType: mediaType,
      };
      return getSignedUrl(client, new GetObjectCommand({ ...objectOf(key), ...answer }), {
        expiresIn: expiresInSeconds,
      });
    },
  };
}

import type { Readable } from 'node:stream';

export type StoredBlob = { key: string; sizeBytes: number; storedAt: Date };

export type StagedBlob = { stagingKey: string; sizeBytes: number; sha256: string };

type SignedUrlOptions = { fileName: string; mediaType: string; expiresInSeconds: number };

/**
 * Stores uploaded files under generated keys that contain no user text (`originalKey`). Throws `service_unavailable`
 * when the store is unreachable or full, and `blob_store_refused` when it rejects our credentials.
 */
export type BlobStore = {
  /**
   * Streams an upload to a temporary object while counting and hashing its bytes. Throws `payload_too_large` above
   * `limitBytes`. Removes the object when the limit is exceeded or the stream breaks.
   */
  stage(input: { content: AsyncIterable<Buffer>; limitBytes: number }): Promise<StagedBlob>;
  /** Moves a staged object to `key`, replacing an existing object. Idempotent. */
  promote(stagingKey: string, key: string): Promise<void>;
  unstage(stagingKey: string): Promise<void>;
  /** Reads an object; byte ranges are inclusive at both ends. Throws `blob_missing`. */
  read(key: string, range?: { start: number; end: number }): Promise<Readable>;
  withLocalFile<T>(key: string, use: (path: string) => Promise<T>): Promise<T>;
  exists(key: string): Promise<boolean>;
  /** Deletes an object; it is no error if the object does not exist. Stops retrying once `signal` is aborted. */
  delete(key: string, signal?: AbortSignal): Promise<void>;
  list(page: { after: string | null; limit: number }): Promise<StoredBlob[]>;
  /** Deletes staged objects of interrupted uploads, once they are so old that no upload can still be using them. */
  deleteStrays(): Promise<number>;
  /** Returns a presigned URL, which needs no credentials; null if the blob store does not support presigned URLs. */
  signedUrl(key: string, options: SignedUrlOptions): Promise<string | null>;
};

import type { Readable } from 'node:stream';

export type StoredBlob = { key: string; sizeBytes: number; storedAt: Date };

export type StagedBlob = { stagingKey: string; sizeBytes: number; sha256: string };

export type SignedUrlOptions = { fileName: string; mediaType: string; expiresInSeconds: number };

/**
 * Stores originals under generated keys that contain no user text (`originalBlobKey`). Throws `service_unavailable`
 * when the store is unreachable or full, and `blob_store_refused` when it rejects our credentials.
 */
export type BlobStore = {
  /**
   * Streams to a temporary object while counting and hashing the bytes. Throws `payload_too_large` above `limitBytes`.
   * Removes the object when the limit is exceeded or the stream breaks.
   */
  stage(input: { content: AsyncIterable<Buffer>; limitBytes: number }): Promise<StagedBlob>;
  /** Moves a staged object to `key` and replaces an existing one. Idempotent. */
  promote(stagingKey: string, key: string): Promise<void>;
  unstage(stagingKey: string): Promise<void>;
  /** Reads an object; byte ranges are inclusive at both ends. Throws `blob_missing`. */
  read(key: string, range?: { start: number; end: number }): Promise<Readable>;
  withLocalFile<T>(key: string, use: (path: string) => Promise<T>): Promise<T>;
  exists(key: string): Promise<boolean>;
  /** Deletes an object; a missing object is no error. Stops retrying once `signal` is aborted. */
  delete(key: string, signal?: AbortSignal): Promise<void>;
  /** Lists objects page by page, in an order that never changes; `after` is the last key of the previous page. */
  list(page: { after: string | null; limit: number }): Promise<StoredBlob[]>;
  /** Deletes staged objects of uploads that a crash interrupted, once no upload can still be using them. */
  deleteStrays(): Promise<void>;
  /** Returns a URL that needs no credentials; null if the blob store does not support presigned URLs. */
  signedUrl(key: string, options: SignedUrlOptions): Promise<string | null>;
};

import type { Readable } from 'node:stream';

export type StoredBlob = { key: string; sizeBytes: number; storedAt: Date };

/** `sha256` is lower-case hex. */
export type StagedBlob = { stagingKey: string; sizeBytes: number; sha256: string };

/** What a download is called and said to be; how long its address holds. */
export type SignedUrlOptions = { fileName: string; mediaType: string; expiresInSeconds: number };

/**
 * Where originals are kept, under keys that are made by us and hold no user text: see domain/original-key.ts. A store
 * that is not reachable or full throws `service_unavailable`, one that refuses us `blob_store_refused`.
 */
export type BlobStore = {
  /**
   * Streams to a temporary place, counts and hashes on the way. Over `limitBytes` it throws `payload_too_large`; that
   * and a stream that breaks leave nothing.
   */
  stage(input: { content: AsyncIterable<Buffer>; limitBytes: number }): Promise<StagedBlob>;
  /** Makes what was staged the object of this key, in place of one that is there. May be repeated. */
  promote(stagingKey: string, key: string): Promise<void>;
  /** Deletes what was staged. Deleting what is not there is fine. */
  unstage(stagingKey: string): Promise<void>;
  /** Throws `blob_missing` when there is none. `range` is inclusive, in bytes. */
  read(key: string, range?: { start: number; end: number }): Promise<Readable>;
  /** Puts the object on the local disk for a parser and calls `use` with its path; cleans up after it where needed. */
  withLocalFile<T>(key: string, use: (path: string) => Promise<T>): Promise<T>;
  exists(key: string): Promise<boolean>;
  /** Deleting what is not there is fine. Once `signal` is aborted the store is not asked again. */
  delete(key: string, signal?: AbortSignal): Promise<void>;
  /** All objects, a page at a time in the store's own order, which stays the same; `after` is the last key of the page before. */
  list(page: { after: string | null; limit: number }): Promise<StoredBlob[]>;
  /** Deletes what uploads left behind that were cut off by a crash, once it is certain that they have ended. */
  deleteStrays(): Promise<void>;
  /** An address at which anybody gets the object from the store itself; null where the store has none. */
  signedUrl(key: string, options: SignedUrlOptions): Promise<string | null>;
};

import type { Readable } from 'node:stream';

export type StoredBlob = { key: string; sizeBytes: number; storedAt: Date };

/** Where originals are kept. Keys are made by us (`<org id>/<uuid>`) and hold no user text. */
export type BlobStore = {
  /**
   * Streams to a temporary place, counts and hashes on the way, and makes the object visible under `key` only when the
   * stream ended well. Over `limitBytes` it throws `payload_too_large` and leaves nothing.
   */
  put(input: { key: string; content: Readable; limitBytes: number }): Promise<{ sizeBytes: number; sha256: string }>;
  /** Throws `blob_missing` when there is none. `range` is inclusive, in bytes. */
  read(key: string, range?: { start: number; end: number }): Promise<Readable>;
  /** Puts the object on the local disk for a parser and calls `use` with its path; cleans up after it where needed. */
  withLocalFile<T>(key: string, use: (path: string) => Promise<T>): Promise<T>;
  exists(key: string): Promise<boolean>;
  /** Deleting what is not there is fine. */
  delete(key: string): Promise<void>;
  /** All objects, a page at a time in the store's own order, which stays the same; `after` is the last key of the page before. */
  list(page: { after: string | null; limit: number }): Promise<StoredBlob[]>;
  /** Deletes what uploads left behind that were cut off by a crash more than a day ago. */
  deleteStrays(): Promise<void>;
};

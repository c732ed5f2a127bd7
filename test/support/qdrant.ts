import { randomBytes } from 'node:crypto';
import { QdrantClient } from '@qdrant/js-client-rest';
import { createQdrantVectorStore } from '#src/adapters/vectors/qdrant.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';

/** What tells the collections of a test from all others of the server. */
export function newCollectionPrefix(): string {
  return `test-${randomBytes(6).toString('hex')}`;
}

/** A store of its own on a server that tests share. */
export function openQdrant(server: { url: string; apiKey: string | null }): {
  vectors: VectorStore;
  close: () => Promise<void>;
} {
  const collectionPrefix = newCollectionPrefix();
  return {
    vectors: createQdrantVectorStore({ ...server, collectionPrefix }),
    close: () => dropCollections(server, collectionPrefix),
  };
}

/** Deletes all collections whose names begin so. */
export async function dropCollections({ url, apiKey }: { url: string; apiKey: string | null }, prefix: string) {
  const client = new QdrantClient({ url, ...(apiKey !== null && { apiKey }), checkCompatibility: false });
  const { collections } = await client.getCollections();
  for (const { name } of collections) if (name.startsWith(`${prefix}_`)) await client.deleteCollection(name);
}

import { randomBytes } from 'node:crypto';
import { QdrantClient } from '@qdrant/js-client-rest';

/** What tells the collections of a test from all others of the server. */
export function newCollectionPrefix(): string {
  return `test-${randomBytes(6).toString('hex')}`;
}

/** Deletes all collections whose names begin so. */
export async function dropCollections({ url, apiKey }: { url: string; apiKey: string | null }, prefix: string) {
  const client = new QdrantClient({ url, ...(apiKey !== null && { apiKey }), checkCompatibility: false });
  const { collections } = await client.getCollections();
  for (const { name } of collections) if (name.startsWith(`${prefix}_`)) await client.deleteCollection(name);
}

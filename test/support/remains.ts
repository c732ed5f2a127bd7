import type { Knex } from 'knex';
import type { Stack } from './stack.ts';

/** Keys of a document's data in all stores, to look them up after its deletion. */
export type Traces = {
  documentId: string;
  orgId: string;
  name: string;
  blobKeys: string[];
  contents: string[];
  texts: Buffer[];
};

/** Reads the keys now. What an ingestion adds later is found by the document's id. */
export async function tracesOf({ container: { db } }: Stack, documentId: string): Promise<Traces> {
  const [document] = await db('documents').where({ id: documentId });
  const generations: { blobKey: string; contentSha256: string }[] = await db('documentGenerations').where({
    documentId,
  });
  const sources = [document, ...generations];
  const chunks: { textSha256: Buffer }[] = await db('chunks').where({ documentId });
  return {
    ...{ documentId, orgId: document.orgId, name: document.name },
    blobKeys: sources.map(({ blobKey }) => blobKey),
    contents: sources.map(({ contentSha256 }) => contentSha256),
    texts: chunks.map(({ textSha256 }) => textSha256),
  };
}

/** Returns the stores that still have data of the document. */
export async function remainsOf({ container: { db, blobs } }: Stack, traces: Traces): Promise<string[]> {
  const { documentId, orgId, name, contents, texts } = traces;
  const tables = ['folderLinks', 'documentGenerations', 'chunks', 'chunkVectors', 'recognizedPages'];
  const rows: Record<string, Knex.QueryBuilder> = {
    documents: db('documents').where({ id: documentId }),
    ...Object.fromEntries(tables.map((table) => [table, db(table).where({ documentId })])),
    jobs: db('jobs').where({ documentId }).whereRaw('position(? in start::text) > 0', [name]),
    conversions: db('conversions').where({ orgId }).whereIn('contentSha256', contents),
    embeddings: db('embeddings').where({ orgId }).whereIn('textSha256', texts),
  };
  const remains: string[] = [];
  for (const [store, found] of Object.entries(rows)) if (await found.first(db.raw('1'))) remains.push(store);
  for (const key of traces.blobKeys) if (await blobs.exists(key)) remains.push(`blob ${key}`);
  return remains;
}

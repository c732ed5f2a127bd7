import type { Stack } from './stack.ts';

/** Tables with data of a document, and the column that contains its id. */
const documentTables = {
  documents: 'id',
  folderLinks: 'documentId',
  documentGenerations: 'documentId',
  chunks: 'documentId',
  chunkVectors: 'documentId',
  recognizedPages: 'documentId',
} as const;

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
export async function tracesOf({ container }: Stack, documentId: string): Promise<Traces> {
  const { db } = container;
  const [document] = await db('documents').where({ id: documentId });
  const generations = await db('documentGenerations').where({ documentId });
  const chunks: { textSha256: Buffer }[] = await db('chunks').where({ documentId });
  const made: { blobKey: string; contentSha256: string }[] = [document, ...generations];
  return {
    documentId,
    orgId: document.orgId,
    name: document.name,
    blobKeys: made.map((source) => source.blobKey),
    contents: made.map((source) => source.contentSha256),
    texts: chunks.map((chunk) => chunk.textSha256),
  };
}

/** Returns the stores that still have data of the document. */
export async function remainsOf({ container }: Stack, traces: Traces): Promise<string[]> {
  const { db } = container;
  const { documentId, orgId } = traces;
  const remains: string[] = [];
  for (const [table, column] of Object.entries(documentTables)) {
    if (
      await db(table)
        .where({ [column]: documentId })
        .first(column)
    )
      remains.push(table);
  }
  const job = await db('jobs')
    .where({ documentId })
    .whereRaw('position(? in start::text) > 0', [traces.name])
    .first('id');
  if (job) remains.push('jobs');
  const conversion = await db('conversions').where({ orgId }).whereIn('contentSha256', traces.contents).first('id');
  if (conversion) remains.push('conversions');
  const embedding = await db('embeddings')
    .where({ orgId })
    .whereRaw('text_sha256 = any (?::bytea[])', [traces.texts])
    .first('model');
  if (embedding) remains.push('embeddings');
  for (const key of traces.blobKeys) {
    if (await container.blobs.exists(key)) remains.push(`blob ${key}`);
  }
  return remains;
}

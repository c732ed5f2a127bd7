import { createHash } from 'node:crypto';
import type { Knex } from 'knex';

type Row = { content: string; contentOffset: number; embedding: string };

/**
 * What readers see of a document, in one hash: the text, the place and the vector (to a thousandth) of every chunk of
 * its active generation, in order. Ids are left out, so that two documents of one content are alike.
 */
export async function contentDigest(db: Knex, documentId: string): Promise<string> {
  const rows: Row[] = await db('documents as d')
    .join('chunks as c', { 'c.documentId': 'd.id', 'c.generation': 'd.activeGeneration' })
    .join('chunkVectors as v', 'v.chunkId', 'c.id')
    .where('d.id', documentId)
    .orderBy('c.chunkIndex')
    .select('c.content', 'c.contentOffset', db.raw('v.embedding::text as embedding'));
  const hash = createHash('sha256');
  for (const { content, contentOffset, embedding } of rows) {
    const vector = (JSON.parse(embedding) as number[]).map((value) => Math.round(value * 1_000));
    hash.update(JSON.stringify([content, contentOffset, vector]));
  }
  return `${rows.length} chunks ${hash.digest('hex').slice(0, 16)}`;
}

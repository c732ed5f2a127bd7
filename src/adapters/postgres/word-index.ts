import type { Knex } from 'knex';
import { CHUNKS_PER_BLOCK, type ChunkWords, toPostingBlocks } from '#src/domain/retrieval/bm25.ts';
import { bytea, integer } from './columns.ts';
import { firstRow, pick, rows, shape } from './shapes.ts';
import { TermStatisticModel } from './word-index.model.ts';

const firstBlock = shape({ generation: integer(), block: integer() });
const deletedChunk = shape({ textSha256: bytea() });
const unusedTerm = pick(TermStatisticModel, 'term');

/** Rows of one statement: more at once gain nothing and hold more memory. */
const POSTINGS_PER_INSERT = 20_000;

/** Far below the time that one statement may take, with a hundred terms to a chunk. */
const BLOCKS_PER_DELETE = 16;

type Generation = { orgId: string; documentId: string; generation: number };

/** Generations of a document from one number up to, and without, another; to the newest when that is null. */
type GenerationRange = { orgId: string; documentId: string; from: number; before: number | null };

/**
 * Indexes the words of a generation's chunks, and counts them for the organization. To be the last of a transaction: it
 * holds back, until the end, whoever counts for the same organization.
 */
export async function indexWords(trx: Knex, of: Generation, chunks: readonly ChunkWords[]): Promise<void> {
  const { orgId, documentId, generation } = of;
  // First, so that transactions of one organization take turns at all that follows.
  await trx.raw(
    `insert into chunk_statistics as s (org_id, chunk_count, term_count) values (?, ?, ?)
     on conflict (org_id) do update
     set chunk_count = s.chunk_count + excluded.chunk_count, term_count = s.term_count + excluded.term_count`,
    [orgId, chunks.length, chunks.reduce((sum, chunk) => sum + chunk.termCount, 0)],
  );
  const blocks = toPostingBlocks(chunks);
  for (let start = 0; start < blocks.length; start += POSTINGS_PER_INSERT) {
    const batch = blocks.slice(start, start + POSTINGS_PER_INSERT);
    await trx.raw(
      `with inserted as (
         insert into document_terms (org_id, term, document_id, generation, block, postings)
         select ?, term, ?, ?, block, postings::integer[]
         from unnest(?::text[], ?::integer[], ?::text[]) as words (term, block, postings)
         returning org_id, term, cardinality(postings) as chunk_count
       )
       ${countTerms('sum(chunk_count)', 'inserted')}`,
      [
        orgId,
        documentId,
        generation,
        batch.map((row) => row.term),
        batch.map((row) => row.block),
        batch.map((row) => `{${row.postings.join()}}`),
      ],
    );
  }
}

/**
 * Deletes chunks with their postings and what was counted of them: some thousand at most. To be called in a
 * transaction, again until nothing is left.
 * @returns of each deleted chunk the hash of its text: of none when another transaction came first; null when nothing
 * is left
 */
export async function deleteIndexedChunks(trx: Knex, range: GenerationRange): Promise<Buffer[] | null> {
  const start = await firstRow(
    trx,
    firstBlock,
    `select generation, chunk_index / ${CHUNKS_PER_BLOCK} as block from chunks
     where org_id = :orgId and document_id = :documentId
       and generation >= :from and generation < coalesce(:before::integer, 2147483647)
     order by document_id, generation, chunk_index
     limit 1`,
    range,
  );
  if (start === undefined) return null;
  const part = {
    orgId: range.orgId,
    documentId: range.documentId,
    generation: start.generation,
    beforeBlock: start.block + BLOCKS_PER_DELETE,
  };
  const deleted = await rows(
    trx,
    deletedChunk,
    `with deleted as (
       delete from chunks
       where org_id = :orgId and document_id = :documentId and generation = :generation
         and chunk_index < :beforeBlock::integer * ${CHUNKS_PER_BLOCK}
       returning term_count, text_sha256
     ),
     counted as (
       update chunk_statistics
       set chunk_count = chunk_count - (select count(*) from deleted),
           term_count = chunk_statistics.term_count - (select coalesce(sum(deleted.term_count), 0) from deleted)
       where org_id = :orgId
     )
     select text_sha256 from deleted`,
    part,
  );
  const unused = await rows(
    trx,
    unusedTerm,
    `with deleted as (
       delete from document_terms
       where org_id = :orgId and document_id = :documentId and generation = :generation and block < :beforeBlock
       returning org_id, term, cardinality(postings) as chunk_count
     ),
     counted as (${countTerms('-sum(chunk_count)', 'deleted')} returning term, chunk_count)
     select term from counted where chunk_count = 0`,
    part,
  );
  await trx.raw('delete from term_statistics where org_id = ? and term = any (?::text[]) and chunk_count = 0', [
    range.orgId,
    unused.map((row) => row.term),
  ]);
  return deleted.map((chunk) => chunk.textSha256);
}

/**
 * Deletes all chunks of the generations, a part a transaction; then the generations themselves, which is what `last`
 * does in its transaction.
 * @param signal ends it between two parts, with its reason
 */
export async function deleteGenerationsWith(
  db: Knex,
  range: GenerationRange,
  last: (trx: Knex) => Promise<unknown>,
  signal?: AbortSignal,
): Promise<void> {
  for (let isMore = true; isMore; ) {
    signal?.throwIfAborted();
    isMore = (await db.transaction((trx) => deleteIndexedChunks(trx, range))) !== null;
  }
  await db.transaction(async (trx) => {
    // Whoever still writes chunks holds its generation: they are counted, and must not go uncounted with it.
    const { orgId, documentId, from, before } = range;
    await trx.raw(
      `select from document_generations
       where org_id = ? and document_id = ? and generation >= ? and generation < coalesce(?::integer, 2147483647)
       order by generation for update`,
      [orgId, documentId, from, before],
    );
    while ((await deleteIndexedChunks(trx, range)) !== null);
    await last(trx);
  });
}

/** In one order whatever the order of the rows: two transactions that change the same terms never wait for each other. */
function countTerms(change: string, changed: string): string {
  return `insert into term_statistics as s (org_id, term, chunk_count)
          select org_id, term, ${change} from ${changed} group by org_id, term order by term
          on conflict (org_id, term) do update set chunk_count = s.chunk_count + excluded.chunk_count`;
}

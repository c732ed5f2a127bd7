import type { Knex } from 'knex';
import { CHUNKS_PER_POSTING_BLOCK, type ChunkTermCounts, toPostingBlocks } from '#src/domain/retrieval/bm25.ts';
import { TermStatisticModel } from './chunks.model.ts';
import {
  bigintColumn,
  byteaColumn,
  defineRowShape,
  integerColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
} from './shapes.ts';

const firstBlock = defineRowShape({ generation: integerColumn(), block: integerColumn() });
const deletedChunk = defineRowShape({ textSha256: byteaColumn() });
const termTotals = defineRowShape({ chunks: bigintColumn(), terms: bigintColumn() });
const unusedTerm = pickColumns(TermStatisticModel, 'term');

const POSTINGS_PER_INSERT = 20_000;

/** Posting blocks per delete: at a hundred terms per chunk, the statement stays far below its timeout. */
const BLOCKS_PER_DELETE = 16;

type Generation = { orgId: string; documentId: string; generation: number };

/**
 * Range of a document's generations: from `from` (inclusive) to `before` (exclusive); if `before` is null, up to the
 * newest.
 */
type GenerationRange = { orgId: string; documentId: string; from: number; before: number | null };

/**
 * Adds a generation's words to the keyword index. Call this last in a transaction, because it locks the organization's
 * index until the end of the transaction.
 */
export async function indexChunkWords(trx: Knex, of: Generation, chunks: readonly ChunkTermCounts[]): Promise<void> {
  const { orgId } = of;
  // Locks the organization's row first, so that concurrent transactions run the statements below in turn.
  await trx.raw(
    `insert into chunk_statistics as s (org_id, chunk_count, term_count) values (?, ?, ?)
     on conflict (org_id) do update
     set chunk_count = s.chunk_count + excluded.chunk_count, term_count = s.term_count + excluded.term_count`,
    [orgId, chunks.length, chunks.reduce((sum, chunk) => sum + chunk.termCount, 0)],
  );
  await insertPostings(trx, of, chunks);
}

async function insertPostings(
  trx: Knex,
  { orgId, documentId, generation }: Generation,
  chunks: readonly ChunkTermCounts[],
): Promise<void> {
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
 * Replaces the words of a generation in the keyword index. Call this last in a transaction, because it locks the
 * organization's index until the end of the transaction.
 * Does nothing if a deletion of the generation has begun.
 * @param chunks all chunks of the generation
 */
export async function replaceChunkWords(trx: Knex, of: Generation, chunks: readonly ChunkTermCounts[]): Promise<void> {
  // Locks the chunks before the organization's statistics, in the order of `deleteIndexedChunks`.
  const old = await queryOneRow(
    trx,
    termTotals,
    `select count(*) as chunks, coalesce(sum(term_count), 0)::bigint as terms from (
       select term_count from chunks
       where org_id = :orgId and document_id = :documentId and generation = :generation
       order by chunk_index for no key update
     ) locked`,
    of,
  );
  if (old.chunks !== chunks.length) return;
  await trx.raw(
    `update chunks set term_count = new.term_count
     from unnest(:indexes::integer[], :counts::integer[]) as new (chunk_index, term_count)
     where org_id = :orgId and document_id = :documentId and generation = :generation
       and chunks.chunk_index = new.chunk_index`,
    { ...of, indexes: chunks.map(({ index }) => index), counts: chunks.map(({ termCount }) => termCount) },
  );
  const terms = chunks.reduce((sum, { termCount }) => sum + termCount, 0);
  await trx.raw('update chunk_statistics set term_count = term_count + ? where org_id = ?', [
    terms - old.terms,
    of.orgId,
  ]);
  const unused: string[] = [];
  const lastBlock = Math.floor((chunks.at(-1)?.index ?? 0) / CHUNKS_PER_POSTING_BLOCK);
  for (let block = 0; block <= lastBlock; block += BLOCKS_PER_DELETE) {
    unused.push(...(await deletePostings(trx, { ...of, fromBlock: block, beforeBlock: block + BLOCKS_PER_DELETE })));
  }
  await insertPostings(trx, of, chunks);
  await deleteUnusedTerms(trx, of.orgId, unused);
}

/**
 * Deletes a batch of chunks with their postings. Returns the text hashes of the deleted chunks, or null if there were
 * no chunks left.
 */
export async function deleteIndexedChunks(trx: Knex, range: GenerationRange): Promise<Buffer[] | null> {
  const start = await queryFirstRow(
    trx,
    firstBlock,
    `select generation, chunk_index / ${CHUNKS_PER_POSTING_BLOCK} as block from chunks
     where org_id = :orgId and document_id = :documentId
       and generation >= :from and generation < coalesce(:before::integer, 2147483647)
     order by document_id, generation, chunk_index
     limit 1`,
    range,
  );
  if (start === undefined) return null;
  const part = {
    ...{ orgId: range.orgId, documentId: range.documentId, generation: start.generation },
    ...{ fromBlock: 0, beforeBlock: start.block + BLOCKS_PER_DELETE },
  };
  const deleted = await queryRows(
    trx,
    deletedChunk,
    `with deleted as (
       delete from chunks
       where org_id = :orgId and document_id = :documentId and generation = :generation
         and chunk_index < :beforeBlock::integer * ${CHUNKS_PER_POSTING_BLOCK}
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
  await deleteUnusedTerms(trx, range.orgId, await deletePostings(trx, part));
  return deleted.map((chunk) => chunk.textSha256);
}

/** Deletes the postings of a generation in some blocks. Returns the terms that no chunk of the organization has now. */
async function deletePostings(
  trx: Knex,
  part: Generation & { fromBlock: number; beforeBlock: number },
): Promise<string[]> {
  const unused = await queryRows(
    trx,
    unusedTerm,
    `with deleted as (
       delete from document_terms
       where org_id = :orgId and document_id = :documentId and generation = :generation
         and block >= :fromBlock and block < :beforeBlock
       returning org_id, term, cardinality(postings) as chunk_count
     ),
     counted as (${countTerms('-sum(chunk_count)', 'deleted')} returning term, chunk_count)
     select term from counted where chunk_count = 0`,
    part,
  );
  return unused.map(({ term }) => term);
}

async function deleteUnusedTerms(trx: Knex, orgId: string, terms: readonly string[]): Promise<void> {
  await trx.raw('delete from term_statistics where org_id = ? and term = any (?::text[]) and chunk_count = 0', [
    orgId,
    [...terms],
  ]);
}

/**
 * Deletes all chunks of the generations in several transactions. The last transaction also runs `last`, which deletes
 * the generations.
 */
export async function deleteChunksOfGenerations(
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
    // Waits for transactions that are still inserting chunks, which hold locks on their generations, so that these
    // chunks are deleted too.
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

/** Orders by term, so that concurrent transactions lock the same terms in the same order and cannot deadlock. */
function countTerms(change: string, changed: string): string {
  return `insert into term_statistics as s (org_id, term, chunk_count)
          select org_id, term, ${change} from ${changed} group by org_id, term order by term
          on conflict (org_id, term) do update set chunk_count = s.chunk_count + excluded.chunk_count`;
}

export async function assignPageNumbers(db: Knex, of: { orgId: string; conversionId: string }): Promise<void> {
  await db.raw(
    `update chunks c set page_number = numbered.page_number
     from (
       select old.id, greatest(1, width_bucket(old.content_offset, v.page_map)) as page_number
       from conversions v
       join document_generations g on g.org_id = v.org_id and g.conversion_id = v.id
       join chunks old on old.org_id = g.org_id and old.document_id = g.document_id and old.generation = g.generation
       where v.org_id = :orgId and v.id = :conversionId and v.page_map is not null
     ) numbered
     where c.id = numbered.id and c.page_number <> numbered.page_number`,
    of,
  );
}

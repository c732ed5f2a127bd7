import type { Knex } from 'knex';
import {
  canReadOnlyFewDocuments,
  readableDocumentAclHashesSql,
  readableDocumentBindings,
  readableDocumentConditionSql,
  readableDocumentCountsSql,
  readableDocumentIdsSql,
  whereReadableByActor,
} from '#src/adapters/postgres/readable.ts';
import {
  defineRowShape,
  integerColumn,
  queryRows,
  queryRowsWithTimeout,
  type RowShape,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import { type Actor, accessKeysOfActor } from '#src/domain/access/visibility.ts';
import { type DocumentNameQuery, maxRankedDocuments } from '#src/domain/retrieval/document-search.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import {
  type DocumentNameCandidate,
  nameCandidateRowShape,
  type PassagePositionInDocument,
  type PassageText,
  passageTextRowShape,
  type SearchResultRow,
  searchResultRowShape,
} from './search.model.ts';

/**
 * If the caller can read at most this many documents, all their names are compared, because the index would mostly find
 * documents that the caller cannot read.
 */
const maxComparedNames = 300;
/** Maximum number of documents found by a name prefix; the same number may be found by a name with a typo. */
const maxOtherCandidates = 250;
/** Maximum number of documents found by the query's rarest word; some of their names have the other words too. */
const maxWithRarest = 1_000;

const timeoutMs = 10_000;

const prepared = defineRowShape({ key: textColumn(), opened: integerColumn(), stored: integerColumn() });

const columns = 'd.id as document_id, d.name, d.name_key, d.updated_at';

/** Upper bound for an index range: sorts after all texts that begin with `text`, in byte order. */
const endOf = (text: string) => `${text}\u{10ffff}`;

/**
 * SQL that selects the documents whose names have the words, newest first. Documents that the caller cannot read do not
 * count for `limit`.
 */
const withWords = (condition: string, limit: number, isNarrow: boolean) => `
  (select readable.*
   from document_name_words w
   cross join lateral (
     select ${columns} from documents d where d.id = w.document_id and ${readableDocumentConditionSql} limit 1
   ) readable
   where w.org_id = :orgId and ${condition}
     ${isNarrow ? 'and (w.document_id in (select id from opened)) is true' : ''}
   order by w.word, w.document_id desc
   limit ${limit})`;

const beginsWith = (word: string) => `w.word >= ${word} and w.word < ${word} || :last::text`;

/** Number of loaded characters: more than a preview shows, because white space is collapsed. */
const beginningCharacters = 400;

export function createSearchRepository(db: Knex) {
  function ask<S extends RowShape>(actor: Actor, source: S, sql: string, values: Record<string, unknown>) {
    const readable = readableDocumentBindings({ orgId: actor.orgId, acl: accessKeysOfActor(actor) });
    return queryRowsWithTimeout(timeoutMs, db, source, sql, { ...readable, last: endOf(''), ...values });
  }

  return {
    /**
     * Normalizes a query for the search of document names. `readsFew`: the caller can read so few documents that all
     * are candidates. `readsPart`: the caller can read a small part, so that queries should filter by document id.
     */
    async prepareNames(actor: Actor, asked: string): Promise<{ key: string; readsFew: boolean; readsPart: boolean }> {
      const [row = { key: '', opened: 0, stored: 0 }] = await ask(
        actor,
        prepared,
        `select name_key(:asked::text) as key, counts.* from (${readableDocumentCountsSql}) counts`,
        { asked },
      );
      return { key: row.key, readsFew: row.opened <= maxComparedNames, readsPart: canReadOnlyFewDocuments(row) };
    },

    listReadableNames(actor: Actor): Promise<DocumentNameCandidate[]> {
      return ask(
        actor,
        nameCandidateRowShape,
        `select ${columns} from documents d where ${readableDocumentConditionSql}`,
        {},
      );
    },

    /**
     * Lists documents whose names begin with the query, contain its rarest word, or contain a word that differs from a
     * query word by a typo. For frequent words the list is limited to the alphabetically first words and their newest
     * documents.
     */
    listNameCandidates(
      actor: Actor,
      { key, words }: DocumentNameQuery,
      readsPart: boolean,
    ): Promise<DocumentNameCandidate[]> {
      return ask(
        actor,
        nameCandidateRowShape,
        `with opened as materialized (${readableDocumentIdsSql}),
         rarest as materialized (
           select word from unnest(:words::text[]) as q (word)
           cross join lateral (
             select count(*) as names from (
               select from document_name_words w where w.org_id = :orgId and ${beginsWith('q.word')}
               limit ${maxWithRarest + 1}
             ) counted
           ) counts
           -- Of equally frequent words the longest one is the most selective.
           order by names, length(word) desc, word
           limit 1
         )
         (select ${columns} from documents d
          where ${readableDocumentConditionSql} and d.id = any (array(
            select n.id from documents n
            where n.org_id = :orgId and n.name_key >= :key and n.name_key < :key || :last::text
              -- A hash lookup instead of a join, so that the index is read in order and only up to the limit.
              and (n.acl_hash in (${readableDocumentAclHashesSql})) is true
            order by n.name_key
            limit ${maxOtherCandidates}
          )))
         union all
         ${withWords(beginsWith('(select word from rarest)'), words.length > 1 ? maxWithRarest : maxRankedDocuments, readsPart)}
         union all
         ${withWords('w.word = any (:typos::text[])', maxOtherCandidates, readsPart)}`,
        { key, words: words.map(({ word }) => word), typos: words.flatMap(({ typos }) => [...typos]) },
      );
    },

    async loadRows(actor: Actor, documentIds: readonly string[]): Promise<SearchResultRow[]> {
      const readableFolders = whereReadableByActor(FolderLinkModel.table(db), actor, 'folders')
        .join('folders', 'folders.id', 'folderLinks.folderId')
        .whereRaw('folder_links.document_id = d.id')
        .orderBy('folderLinks.createdAt')
        .select('folders.id');
      const found = whereReadableByActor(db('documents as d'), actor, 'd')
        .leftJoin('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .leftJoin('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .whereRaw('d.id = any (?::uuid[])', [[...documentIds]])
        .select(
          ...['d.id', 'd.name', 'd.sourceFormat', 'c.pageCount', 'd.createdBy', 'd.createdAt', 'd.updatedAt'],
          db.raw('array(?) as folder_ids', [readableFolders]),
          db.raw('coalesce(c.char_count, 0) as char_count'),
          db.raw(`coalesce(left(c.body, ${beginningCharacters}), '') as beginning`),
        );
      return queryRows(db, searchResultRowShape, found);
    },

    /** @returns the passages that the caller may read and that belong to the active generation */
    async loadPassages(actor: Actor, positions: readonly PassagePositionInDocument[]): Promise<PassageText[]> {
      if (positions.length === 0) return [];
      const passages = whereReadableByActor(db('documents as d'), actor, 'd')
        .joinRaw(
          `join unnest(?::uuid[], ?::integer[], ?::integer[]) as wanted (document_id, generation, chunk_index)
             on wanted.document_id = d.id and wanted.generation = d.active_generation
           join chunks c on c.document_id = d.id and c.generation = d.active_generation and c.chunk_index = wanted.chunk_index`,
          [
            positions.map(({ documentId }) => documentId),
            positions.map(({ generation }) => generation),
            positions.map(({ chunkIndex }) => chunkIndex),
          ],
        )
        .select('c.documentId', 'c.generation', 'c.chunkIndex', 'c.content');
      return queryRows(db, passageTextRowShape, passages);
    },
  };
}

import type { Knex } from 'knex';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { rows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import { type PassagePlace, type PassageText, passageText, type SearchRow, searchRow } from './search.model.ts';

/** Some more than is shown: there may be spaces. */
const beginningCharacters = 400;

export type SearchRepository = ReturnType<typeof createSearchRepository>;

export function createSearchRepository(db: Knex) {
  return {
    /** Those of the documents that the caller may read now, in no order. */
    async loadRows(actor: Actor, documentIds: readonly string[]): Promise<SearchRow[]> {
      const readableFolders = readableBy(FolderLinkModel.table(db), actor, 'folders')
        .join('folders', 'folders.id', 'folderLinks.folderId')
        .whereRaw('folder_links.document_id = d.id')
        .orderBy('folderLinks.createdAt')
        .select('folders.id');
      const found = readableBy(db('documents as d'), actor, 'd')
        .leftJoin('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .leftJoin('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .whereRaw('d.id = any (?::uuid[])', [[...documentIds]])
        .select(
          ...['d.id', 'd.name', 'd.sourceFormat', 'c.pageCount', 'd.createdBy', 'd.createdAt', 'd.updatedAt'],
          db.raw('array(?) as folder_ids', [readableFolders]),
          db.raw('coalesce(c.char_count, 0) as char_count'),
          db.raw(`coalesce(left(c.body, ${beginningCharacters}), '') as beginning`),
        );
      return rows(db, searchRow, found);
    },

    /** Those of the passages that the caller may read now and that are of their document's active generation. */
    async loadPassages(actor: Actor, places: readonly PassagePlace[]): Promise<PassageText[]> {
      if (places.length === 0) return [];
      const passages = readableBy(db('documents as d'), actor, 'd')
        .joinRaw(
          `join unnest(?::uuid[], ?::integer[], ?::integer[]) as place (document_id, generation, chunk_index)
             on place.document_id = d.id and place.generation = d.active_generation
           join chunks c on c.document_id = d.id and c.generation = d.active_generation and c.chunk_index = place.chunk_index`,
          [
            places.map(({ documentId }) => documentId),
            places.map(({ generation }) => generation),
            places.map(({ chunkIndex }) => chunkIndex),
          ],
        )
        .select('c.documentId', 'c.generation', 'c.chunkIndex', 'c.content');
      return rows(db, passageText, passages);
    },
  };
}

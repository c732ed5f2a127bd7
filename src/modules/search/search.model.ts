import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, pick, type Row, shape, text, uuid, uuidArray } from '#src/adapters/postgres/shapes.ts';
import { ChunkModel, DocumentModel } from '#src/modules/documents/documents.model.ts';
import type { PassageHit } from '#src/modules/retrieval/retrieval.service.ts';

export class DocumentNameWordModel extends model(
  'document_name_words',
  {
    orgId: uuid(),
    documentId: uuid(),
    word: text(),
  },
  ['orgId', 'documentId', 'word'],
) {}

export const nameCandidate = shape({
  documentId: uuid(),
  ...pick(DocumentModel, 'name', 'nameKey', 'updatedAt').columns,
});
export type NameCandidate = Row<typeof nameCandidate>;

export type PassagePosition = Pick<PassageHit, 'documentId' | 'generation' | 'chunkIndex'>;

export const searchResultRow = shape({
  ...pick(DocumentModel, 'id', 'name', 'sourceFormat', 'createdBy', 'createdAt', 'updatedAt').columns,
  /** Ids of the document's folders that the caller may read. */
  folderIds: uuidArray(),
  charCount: integer(),
  pageCount: integer().nullable(),
  /** The first characters of the document's converted text; empty before the first ingestion. */
  beginning: text(),
});
export type SearchResultRow = Row<typeof searchResultRow>;

export const passageText = pick(ChunkModel, 'documentId', 'generation', 'chunkIndex', 'content');
export type PassageText = Row<typeof passageText>;

/** A search result. `preview` is sanitized HTML. */
export type SearchHit = Omit<SearchResultRow, 'beginning'> & { preview: string; rank: number };

import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, type Row, text, uuid, uuidArray } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
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

/** A document whose name may be what is looked for. */
export const nameCandidate = shape({
  documentId: uuid(),
  ...pick(DocumentModel, 'name', 'nameKey', 'updatedAt').columns,
});
export type NameCandidate = Row<typeof nameCandidate>;

/** Where a passage stands. */
export type PassagePlace = Pick<PassageHit, 'documentId' | 'generation' | 'chunkIndex'>;

/** A document as a search shows it. */
export const searchRow = shape({
  ...pick(DocumentModel, 'id', 'name', 'sourceFormat', 'createdBy', 'createdAt', 'updatedAt').columns,
  /** The folders of it that the caller may read. */
  folderIds: uuidArray(),
  charCount: integer(),
  pageCount: integer().nullable(),
  /** The first characters of the body; empty before the first ingestion. */
  beginning: text(),
});
export type SearchRow = Row<typeof searchRow>;

export const passageText = pick(ChunkModel, 'documentId', 'generation', 'chunkIndex', 'content');
export type PassageText = Row<typeof passageText>;

/** `preview` is safe to show as HTML. */
export type SearchHit = Omit<SearchRow, 'beginning'> & { preview: string; rank: number };

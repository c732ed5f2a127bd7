import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  defineRowShape,
  integerColumn,
  pickColumns,
  type SqlRow,
  textColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { ChunkModel, DocumentModel } from '#src/modules/documents/documents.model.ts';
import type { PassageHit } from '#src/modules/retrieval/retrieval.service.ts';

export class DocumentNameWordModel extends tableModel(
  'document_name_words',
  {
    orgId: uuidColumn(),
    documentId: uuidColumn(),
    word: textColumn(),
  },
  ['orgId', 'documentId', 'word'],
) {}

export const nameCandidateRowShape = defineRowShape({
  documentId: uuidColumn(),
  ...pickColumns(DocumentModel, 'name', 'nameKey', 'updatedAt').columns,
});
export type DocumentNameCandidate = SqlRow<typeof nameCandidateRowShape>;

export type PassagePositionInDocument = Pick<PassageHit, 'documentId' | 'generation' | 'chunkIndex'>;

export const searchResultRowShape = defineRowShape({
  ...pickColumns(DocumentModel, 'id', 'name', 'sourceFormat', 'createdBy', 'createdAt', 'updatedAt').columns,
  folderIds: uuidArrayColumn(),
  charCount: integerColumn(),
  pageCount: integerColumn().nullable(),
  /** The first characters of the document's converted text; empty before the first ingestion. */
  beginning: textColumn(),
});
export type SearchResultRow = SqlRow<typeof searchResultRowShape>;

export const passageTextRowShape = pickColumns(ChunkModel, 'documentId', 'generation', 'chunkIndex', 'content');
export type PassageText = SqlRow<typeof passageTextRowShape>;

export type DocumentSearchHit = Omit<SearchResultRow, 'beginning'> & { preview: string; rank: number };

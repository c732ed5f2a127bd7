import { model } from '#src/adapters/postgres/base-model.ts';
import { text, uuid } from '#src/adapters/postgres/columns.ts';
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
export type NameCandidate = { documentId: string; name: string; nameKey: string; updatedAt: Date };

/** Where a passage stands. */
export type PassagePlace = Pick<PassageHit, 'documentId' | 'generation' | 'chunkIndex'>;

/** A document as a search shows it. */
export type SearchRow = {
  id: string;
  name: string;
  /** The folders of it that the caller may read. */
  folderIds: string[];
  sourceFormat: string | null;
  charCount: number;
  pageCount: number | null;
  /** The first characters of the body; empty before the first ingestion. */
  beginning: string;
  createdBy: string;
  createdAt: Date;
  updatedAt: Date;
};

/** `preview` is safe to show as HTML. */
export type SearchHit = Omit<SearchRow, 'beginning'> & { preview: string; rank: number };

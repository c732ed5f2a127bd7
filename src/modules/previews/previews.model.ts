import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';

export class PreviewModel extends model(
  'previews',
  {
    orgId: uuid(),
    originalKey: text(),
    rendererVersion: text(),
    blobKey: text(),
    sha256: text(),
    sizeBytes: bigint(),
    createdAt: timestamp(),
  },
  ['orgId', 'originalKey'],
) {}

/** The PDF of an original. */
export type Preview = {
  orgId: string;
  originalKey: string;
  rendererVersion: string;
  blobKey: string;
  /** Of the PDF, lower-case hex. */
  sha256: string;
  sizeBytes: number;
};

/** What a run makes a preview of: a generation whose original the document still has. */
export type PreviewTarget = {
  blobKey: string;
  sourceFormat: string | null;
  conversionId: string | null;
};

/** What a preview tells the page numbers of. */
export type PreviewedBody = { body: string; pageMap: number[] | null };

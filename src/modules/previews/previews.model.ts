import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, pick, type Row, shape, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import { GenerationModel } from '#src/modules/ingestion/ingestion.model.ts';

export class PreviewModel extends model(
  'previews',
  {
    orgId: uuid(),
    originalKey: text(),
    rendererVersion: text(),
    blobKey: text(),
    /** Of the PDF, lower-case hex. */
    sha256: text(),
    sizeBytes: bigint(),
    createdAt: timestamp(),
  },
  ['orgId', 'originalKey'],
) {}

/** The PDF of an original. */
export type Preview = Omit<Row<typeof PreviewModel>, 'createdAt'>;

/** What a run makes a preview of: a generation whose original the document still has. */
export const previewTarget = pick(GenerationModel, 'blobKey', 'sourceFormat', 'conversionId');

export const previewRequest = shape({ createdBy: uuid(), acl: textArray(), requestId: text().nullable() });

export const previewBytes = shape({ bytes: bigint() });

export const ingestionOutcome = shape({ status: text().nullable(), errorMessage: text().nullable() });

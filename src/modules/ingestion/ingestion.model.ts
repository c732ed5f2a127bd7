import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  byteaColumn,
  defineRowShape,
  integerArrayColumn,
  integerColumn,
  jsonColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import type { OcrPage } from '#src/ports/documents.ts';

export class GenerationModel extends tableModel(
  'document_generations',
  {
    orgId: uuidColumn(),
    documentId: uuidColumn(),
    generation: integerColumn(),
    jobId: textColumn(),
    conversionId: uuidColumn().nullable(),
    chunksTotal: integerColumn().nullable(),
    chunksEmbedded: integerColumn(),
    embeddingModel: textColumn().nullable(),
    createdAt: timestampColumn(),
    chunkedAt: timestampColumn().nullable(),
    activatedAt: timestampColumn().nullable(),
    documentName: textColumn(),
    fileName: textColumn(),
    mediaType: textColumn().nullable(),
    declaredFormat: textColumn<SourceFormat>().nullable(),
    sourceFormat: textColumn<SourceFormat>().nullable(),
    sizeBytes: bigintColumn(),
    contentSha256: textColumn(),
    blobKey: textColumn(),
    ragConfig: jsonColumn<RagConfig>(),
    reservedId: uuidColumn().nullable(),
    language: textColumn(),
    analyzerVersion: integerColumn(),
  },
  ['documentId', 'generation'],
) {}

export class ConversionModel extends tableModel('conversions', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  contentSha256: textColumn(),
  converterVersion: textColumn(),
  sourceFormat: textColumn<SourceFormat>(),
  title: textColumn().nullable(),
  body: textColumn(),
  charCount: integerColumn(),
  pageMap: integerArrayColumn().nullable(),
  pageCount: integerColumn().nullable(),
  createdAt: timestampColumn(),
}) {}

export class RecognizedPageModel extends tableModel(
  'recognized_pages',
  {
    orgId: uuidColumn(),
    documentId: uuidColumn(),
    generation: integerColumn(),
    converterVersion: textColumn(),
    pageIndex: integerColumn(),
    lines: jsonColumn<OcrPage['lines']>(),
  },
  ['orgId', 'documentId', 'generation', 'converterVersion', 'pageIndex'],
) {}

export class ContextualTextModel extends tableModel(
  'contextual_texts',
  {
    orgId: uuidColumn(),
    conversionId: uuidColumn(),
    model: textColumn(),
    promptVersion: integerColumn(),
    chunkSha256: byteaColumn(),
    situation: textColumn(),
    createdAt: timestampColumn(),
  },
  ['orgId', 'conversionId', 'model', 'promptVersion', 'chunkSha256'],
) {}

export const ingestionTargetRowShape = defineRowShape({
  ...pickColumns(GenerationModel, 'documentName', 'fileName', 'mediaType', 'declaredFormat', 'sourceFormat').columns,
  ...pickColumns(GenerationModel, 'sizeBytes', 'contentSha256', 'blobKey', 'ragConfig').columns,
  ...pickColumns(GenerationModel, 'conversionId', 'chunksTotal').columns,
  newestGeneration: integerColumn(),
  activeGeneration: integerColumn().nullable(),
  importSourceProvider: textColumn().nullable(),
});
export type IngestionTarget = SqlRow<typeof ingestionTargetRowShape>;

export const documentGenerationStateRowShape = pickColumns(
  ingestionTargetRowShape,
  'newestGeneration',
  'activeGeneration',
);
export type DocumentGenerationState = SqlRow<typeof documentGenerationStateRowShape>;

type Conversion = SqlRow<typeof ConversionModel>;
export type ConversionKey = Pick<Conversion, 'orgId' | 'contentSha256' | 'converterVersion' | 'sourceFormat'>;
export type NewConversion = Omit<Conversion, 'charCount' | 'createdAt'>;
export type ConversionSummary = Pick<Conversion, 'id' | 'charCount' | 'pageCount'>;

export type NewChunk = IndexedChunk & { id: string; textSha256: Buffer };

export const chunkTextRowShape = defineRowShape({
  id: uuidColumn(),
  contextualText: textColumn(),
  content: textColumn(),
});
export type ChunkText = SqlRow<typeof chunkTextRowShape>;

export const generationPublicationRowShape = defineRowShape({
  model: textColumn(),
  acl: textArrayColumn(),
  retrievalSettings: textColumn(),
});
export type GenerationPublication = SqlRow<typeof generationPublicationRowShape>;

export type DocumentReference = { orgId: string; documentId: string };

export type DocumentGenerationRange = DocumentReference & { from: number; before: number };

import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  bytea,
  integer,
  integerArray,
  json,
  pick,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import type { IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import type { RecognizedPage } from '#src/ports/documents.ts';

export class GenerationModel extends model(
  'document_generations',
  {
    orgId: uuid(),
    documentId: uuid(),
    generation: integer(),
    jobId: text(),
    conversionId: uuid().nullable(),
    chunksTotal: integer().nullable(),
    chunksEmbedded: integer(),
    embeddingModel: text().nullable(),
    createdAt: timestamp(),
    chunkedAt: timestamp().nullable(),
    activatedAt: timestamp().nullable(),
    documentName: text(),
    fileName: text(),
    mediaType: text().nullable(),
    declaredFormat: text<SourceFormat>().nullable(),
    sourceFormat: text<SourceFormat>().nullable(),
    sizeBytes: bigint(),
    contentSha256: text(),
    blobKey: text(),
    ragConfig: json<RagConfig>(),
    reservedId: uuid().nullable(),
  },
  ['documentId', 'generation'],
) {}

export class ConversionModel extends model('conversions', {
  id: uuid(),
  orgId: uuid(),
  contentSha256: text(),
  converterVersion: text(),
  sourceFormat: text<SourceFormat>(),
  title: text().nullable(),
  body: text(),
  charCount: integer(),
  pageMap: integerArray().nullable(),
  pageCount: integer().nullable(),
  createdAt: timestamp(),
}) {}

export class RecognizedPageModel extends model(
  'recognized_pages',
  {
    orgId: uuid(),
    documentId: uuid(),
    generation: integer(),
    converterVersion: text(),
    pageIndex: integer(),
    lines: json<RecognizedPage['lines']>(),
  },
  ['orgId', 'documentId', 'generation', 'converterVersion', 'pageIndex'],
) {}

export class ContextualTextModel extends model(
  'contextual_texts',
  {
    orgId: uuid(),
    conversionId: uuid(),
    model: text(),
    promptVersion: integer(),
    chunkSha256: bytea(),
    situation: text(),
    createdAt: timestamp(),
  },
  ['orgId', 'conversionId', 'model', 'promptVersion', 'chunkSha256'],
) {}

export const ingestionTarget = shape({
  ...pick(GenerationModel, 'documentName', 'fileName', 'mediaType', 'declaredFormat', 'sourceFormat').columns,
  ...pick(GenerationModel, 'sizeBytes', 'contentSha256', 'blobKey', 'ragConfig').columns,
  ...pick(GenerationModel, 'conversionId', 'chunksTotal').columns,
  newestGeneration: integer(),
  activeGeneration: integer().nullable(),
});
export type IngestionTarget = Row<typeof ingestionTarget>;

export const documentGenerationState = pick(ingestionTarget, 'newestGeneration', 'activeGeneration');
export type DocumentGenerationState = Row<typeof documentGenerationState>;

type Conversion = Row<typeof ConversionModel>;
export type ConversionKey = Pick<Conversion, 'orgId' | 'contentSha256' | 'converterVersion' | 'sourceFormat'>;
export type NewConversion = Omit<Conversion, 'charCount' | 'createdAt'>;
export type ConversionSummary = Pick<Conversion, 'id' | 'charCount' | 'pageCount'>;

/** A chunk before it is stored. `textSha256` is its key in the embedding cache. */
export type NewChunk = IndexedChunk & { id: string; textSha256: Buffer };

export const chunkText = shape({ id: uuid(), contextualText: text(), content: text() });
export type ChunkText = Row<typeof chunkText>;

export const generationPublication = shape({ model: text(), acl: textArray(), retrievalSettings: text() });
export type GenerationPublication = Row<typeof generationPublication>;

export type DocumentKey = { orgId: string; documentId: string };

/** The generations of a document from `from` (inclusive) to `before` (exclusive). */
export type GenerationRange = DocumentKey & { from: number; before: number };

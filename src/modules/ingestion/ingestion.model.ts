import type { IndexedChunk } from '#src/domain/chunk-document.ts';
import type { SourceFormat } from '#src/domain/document-format.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';

/** A document together with the generation of it that is being made. */
export type IngestionTarget = {
  name: string;
  fileName: string;
  mediaType: string | null;
  /** What the author of a pasted text says it is. */
  declaredFormat: SourceFormat | null;
  sourceFormat: SourceFormat | null;
  sizeBytes: number;
  contentSha256: string;
  blobKey: string;
  ragConfig: RagConfig;
  newestGeneration: number;
  conversionId: string | null;
  chunksTotal: number | null;
};

export type ConversionKey = {
  orgId: string;
  contentSha256: string;
  converterVersion: string;
  sourceFormat: SourceFormat;
};

export type NewConversion = ConversionKey & {
  id: string;
  title: string | null;
  body: string;
  pageMap: number[] | null;
  pageCount: number | null;
};

/** A conversion without its body, which may be large. */
export type ConversionSummary = { id: string; charCount: number; pageCount: number | null };

export type NewChunk = IndexedChunk & { id: string };

export type ChunkText = Pick<NewChunk, 'id' | 'contextualText' | 'content'>;

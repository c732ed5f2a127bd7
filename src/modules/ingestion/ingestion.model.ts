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

export type NewChunk = {
  id: string;
  chunkIndex: number;
  content: string;
  contextualText: string;
  chunkKind: string;
  tokenCount: number;
  contentOffset: number;
  pageNumber: number;
  /** How often each stem occurs in context and content. */
  terms: ReadonlyMap<string, number>;
  termCount: number;
};

export type ChunkText = { id: string; contextualText: string; content: string };

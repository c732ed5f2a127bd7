import type { IndexedChunk } from '#src/domain/chunk-document.ts';
import type { SourceFormat } from '#src/domain/document-format.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';

/** What a generation is made of, as the document was when it was asked for, and where the document stands now. */
export type IngestionTarget = {
  documentName: string;
  fileName: string;
  mediaType: string | null;
  /** What the author of a pasted text says it is. */
  declaredFormat: SourceFormat | null;
  /** Found by content; null before that. */
  sourceFormat: SourceFormat | null;
  sizeBytes: number;
  contentSha256: string;
  blobKey: string;
  ragConfig: RagConfig;
  conversionId: string | null;
  chunksTotal: number | null;
  newestGeneration: number;
  activeGeneration: number | null;
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

/** `textSha256` is of the text that is embedded, as the cache of embeddings has it. */
export type NewChunk = IndexedChunk & { id: string; textSha256: Buffer };

export type ChunkText = Pick<NewChunk, 'id' | 'contextualText' | 'content'>;

/** What the vector store is told of a generation, as its document is now. */
export type Publication = { model: string; acl: string[]; retrievalSettings: string };

export type DocumentKey = { orgId: string; documentId: string };

/** Generations of a document from one number up to, and without, another. */
export type GenerationRange = DocumentKey & { from: number; before: number };

import type { RagConfig } from '#src/domain/rag-config.ts';
import type { Visibility } from '#src/domain/visibility.ts';

/** A row of `documents`. `generation` is the newest that was asked for; readers see `activeGeneration` only. */
export type DocumentRow = {
  id: string;
  orgId: string;
  name: string;
  fileName: string;
  mediaType: string | null;
  /** What the author of a pasted text says it is; null for what is detected. */
  declaredFormat: string | null;
  sourceFormat: string | null;
  sizeBytes: number;
  contentSha256: string;
  blobKey: string;
  importSourceProvider: string | null;
  importSourceUrl: string | null;
  generation: number;
  activeGeneration: number | null;
  ragConfig: RagConfig;
  acl: string[];
  /** What a scanner found in the original of this hash, which may be another one by now. */
  malware: { sha256: string; signature: string } | null;
  /** Null in every row that anybody reads. */
  deletedAt: Date | null;
  createdBy: string;
  createdAt: Date;
  updatedBy: string;
  updatedAt: Date;
};

/** A document as lists show it: what it was converted to and how far its newest generation is. */
export type DocumentView = DocumentRow & {
  createdByName: string;
  /** It was imported by a connection, and is no longer what was imported. */
  isDetached: boolean;
  /** The folders of it that the caller may read. */
  folderIds: string[];
  charCount: number;
  pageCount: number | null;
  contentPreview: string;
  hasPreviewPdf: boolean;
  jobId: string | null;
  /** Why the newest ingestion has stopped; null while it goes on, and once it has succeeded. */
  lastError: { code: string; message: string } | null;
  /** What readers see was made of; null before the first activation. */
  activeContentSha256: string | null;
  activeRagConfig: RagConfig | null;
  chunkingComplete: boolean;
  embeddingComplete: boolean;
  chunksTotal: number;
  chunksEmbedded: number;
};

/** A folder that a document is in. `createdBy` is its owner, null for what is not one person's. */
export type DocumentLink = {
  folderId: string;
  folderName: string;
  orgId: string;
  acl: string[];
  createdBy: string | null;
};

export type FullDocument = DocumentView & { content: string };

/** `pageMap` holds the offset of each page in the body; null for a format without pages. */
export type ConvertedDocument = Pick<DocumentRow, 'orgId' | 'name' | 'ragConfig'> & {
  conversionId: string;
  body: string;
  pageMap: number[] | null;
};

export type ChunkRow = {
  id: string;
  chunkIndex: number;
  content: string;
  contextualText: string | null;
  chunkKind: string;
  tokenCount: number;
  embeddingModel: string | null;
  embeddedAt: Date | null;
};

export type ChunkInContext = {
  id: string;
  chunkIndex: number;
  content: string;
  pageNumber: number;
  contentOffset: number;
  documentId: string;
  documentName: string;
  visibility: Visibility;
};

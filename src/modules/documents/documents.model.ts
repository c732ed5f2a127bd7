import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, bytea, integer, json, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';
import type { Visibility } from '#src/domain/visibility.ts';

export class DocumentModel extends model('documents', {
  id: uuid(),
  orgId: uuid(),
  name: text(),
  fileName: text(),
  mediaType: text().nullable(),
  declaredFormat: text().nullable(),
  sourceFormat: text().nullable(),
  sizeBytes: bigint(),
  contentSha256: text(),
  blobKey: text(),
  importSourceProvider: text().nullable(),
  importSourceUrl: text().nullable(),
  generation: integer(),
  activeGeneration: integer().nullable(),
  ragConfig: json<RagConfig>(),
  acl: textArray(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedBy: uuid(),
  updatedAt: timestamp(),
  deletedAt: timestamp().nullable(),
  retrievalSettings: text(),
  activeEmbeddingModel: text().nullable(),
  pointsOutdatedAt: timestamp().nullable(),
  pointsLeasedUntil: timestamp().nullable(),
  nameKey: text(),
  aclHash: bigint(),
  malware: json<{ sha256: string; signature: string }>().nullable(),
  version: integer(),
}) {}

export class ChunkModel extends model('chunks', {
  id: uuid(),
  orgId: uuid(),
  documentId: uuid(),
  generation: integer(),
  chunkIndex: integer(),
  content: text(),
  contextualText: text().nullable(),
  chunkKind: text(),
  tokenCount: integer(),
  contentOffset: integer(),
  pageNumber: integer(),
  termCount: integer(),
  embeddingModel: text().nullable(),
  embeddedAt: timestamp().nullable(),
  textSha256: bytea(),
}) {}

export class FolderLinkModel extends model(
  'folder_links',
  {
    orgId: uuid(),
    folderId: uuid(),
    documentId: uuid(),
    createdBy: uuid(),
    createdAt: timestamp(),
    listedAt: timestamp().nullable(),
  },
  ['documentId', 'folderId'],
) {}

export class DocumentTotalModel extends model('document_totals', {
  id: bigint(),
  orgId: uuid(),
  createdBy: uuid(),
  acl: textArray(),
  ofWhom: uuid(),
  documents: bigint(),
  sizeBytes: bigint(),
  aclHash: bigint(),
}) {}

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
  version: number;
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

import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  boolean,
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
  uuidArray,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';

/** `generation` is the newest requested generation of a document; readers see only `activeGeneration`. */
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
  /**
   * The malware that the scanner found in the original with this hash; the document may have another original by now.
   */
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

export type DocumentRow = Row<typeof DocumentModel>;

type Origin = 'id' | 'orgId' | 'importSourceProvider' | 'importSourceUrl' | 'createdBy';
type Original =
  | 'fileName'
  | 'mediaType'
  | 'declaredFormat'
  | 'sourceFormat'
  | 'sizeBytes'
  | 'contentSha256'
  | 'blobKey';
export type NewDocumentRow = Pick<DocumentRow, Origin | Original | 'name' | 'ragConfig' | 'acl' | 'updatedBy'>;

export const documentView = shape({
  ...DocumentModel.columns,
  createdByName: text(),
  /** True if a connection imported the document and its original was replaced since then. */
  isDetached: boolean(),
  folderIds: uuidArray(),
  charCount: integer(),
  pageCount: integer().nullable(),
  contentPreview: text(),
  hasPreviewPdf: boolean(),
  jobId: text().nullable(),
  lastError: json<{ code: string; message: string }>().nullable(),
  activeContentSha256: text().nullable(),
  activeRagConfig: json<RagConfig>().nullable(),
  chunkingComplete: boolean(),
  embeddingComplete: boolean(),
  chunksTotal: integer(),
  chunksEmbedded: integer(),
});
export type DocumentView = Row<typeof documentView>;

/**
 * The field `createdBy` holds the owner of the linked folder, as access checks expect it; null for a shared folder.
 */
export const documentLink = shape({
  folderId: uuid(),
  folderName: text(),
  orgId: uuid(),
  acl: textArray(),
  createdBy: uuid().nullable(),
});
export type DocumentLink = Row<typeof documentLink>;

export type FullDocument = DocumentView & { content: string };

/** `pageMap` holds the offset of each page in the Markdown text `body`; null for a format without pages. */
export const conversionText = shape({ conversionId: uuid(), body: text(), pageMap: integerArray().nullable() });
export type ConversionText = Row<typeof conversionText>;

export type ConvertedDocument = Pick<DocumentRow, 'orgId' | 'name' | 'ragConfig'> & ConversionText;

export const chunkRow = shape({
  ...pick(ChunkModel, 'id', 'chunkIndex', 'content', 'contextualText', 'chunkKind', 'tokenCount').columns,
  ...pick(ChunkModel, 'embeddingModel', 'embeddedAt').columns,
});
export type ChunkRow = Row<typeof chunkRow>;

export const chunkInDocument = shape({
  ...pick(ChunkModel, 'id', 'chunkIndex', 'content', 'pageNumber', 'contentOffset').columns,
  documentId: uuid(),
  documentName: text(),
  acl: textArray(),
});
export type ChunkInContext = Omit<Row<typeof chunkInDocument>, 'acl'> & { visibility: Visibility };

export const vectorPublication = shape({
  ...pick(DocumentModel, 'orgId', 'acl', 'retrievalSettings').columns,
  documentId: uuid(),
  generation: integer(),
  model: text(),
  outdatedAt: text(),
  leasedUntil: text(),
});
export type VectorPublication = Row<typeof vectorPublication>;

export const documentUsage = shape({ documents: bigint(), storageBytes: bigint() });
export type DocumentUsage = Row<typeof documentUsage>;

export const storedBytes = shape({ usedBytes: bigint(), deletedBytes: bigint() });
export type StoredBytes = Row<typeof storedBytes>;

export const folderDocument = shape({ ...pick(DocumentModel, 'id', 'acl').columns, isElsewhere: boolean() });
export type FolderDocument = Row<typeof folderDocument>;

import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  booleanColumn,
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
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';

/** `generation` is the newest requested generation of a document; readers see only `activeGeneration`. */
export class DocumentModel extends tableModel('documents', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  name: textColumn(),
  fileName: textColumn(),
  mediaType: textColumn().nullable(),
  declaredFormat: textColumn().nullable(),
  sourceFormat: textColumn().nullable(),
  sizeBytes: bigintColumn(),
  contentSha256: textColumn(),
  blobKey: textColumn(),
  importSourceProvider: textColumn().nullable(),
  importSourceUrl: textColumn().nullable(),
  generation: integerColumn(),
  activeGeneration: integerColumn().nullable(),
  ragConfig: jsonColumn<RagConfig>(),
  acl: textArrayColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  updatedBy: uuidColumn(),
  updatedAt: timestampColumn(),
  deletedAt: timestampColumn().nullable(),
  retrievalSettings: textColumn(),
  activeEmbeddingModel: textColumn().nullable(),
  activeLanguage: textColumn(),
  pointsOutdatedAt: timestampColumn().nullable(),
  pointsLeasedUntil: timestampColumn().nullable(),
  nameKey: textColumn(),
  aclHash: bigintColumn(),
  /**
   * The malware that the scanner found in the original with this hash; the document may have another original by now.
   */
  malware: jsonColumn<{ sha256: string; signature: string }>().nullable(),
  version: integerColumn(),
}) {}

export class ChunkModel extends tableModel('chunks', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  documentId: uuidColumn(),
  generation: integerColumn(),
  chunkIndex: integerColumn(),
  content: textColumn(),
  contextualText: textColumn().nullable(),
  chunkKind: textColumn(),
  tokenCount: integerColumn(),
  contentOffset: integerColumn(),
  pageNumber: integerColumn(),
  termCount: integerColumn(),
  embeddingModel: textColumn().nullable(),
  embeddedAt: timestampColumn().nullable(),
  textSha256: byteaColumn(),
}) {}

export class FolderLinkModel extends tableModel(
  'folder_links',
  {
    orgId: uuidColumn(),
    folderId: uuidColumn(),
    documentId: uuidColumn(),
    createdBy: uuidColumn(),
    createdAt: timestampColumn(),
    listedAt: timestampColumn().nullable(),
  },
  ['documentId', 'folderId'],
) {}

export class DocumentTotalModel extends tableModel('document_totals', {
  id: bigintColumn(),
  orgId: uuidColumn(),
  createdBy: uuidColumn(),
  acl: textArrayColumn(),
  ofWhom: uuidColumn(),
  documents: bigintColumn(),
  sizeBytes: bigintColumn(),
  aclHash: bigintColumn(),
}) {}

export type DocumentRow = SqlRow<typeof DocumentModel>;

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

export const documentViewRowShape = defineRowShape({
  ...DocumentModel.columns,
  createdByName: textColumn(),
  /** True if a connection imported the document and its original was replaced since then. */
  isDetached: booleanColumn(),
  folderIds: uuidArrayColumn(),
  charCount: integerColumn(),
  pageCount: integerColumn().nullable(),
  contentPreview: textColumn(),
  hasPreviewPdf: booleanColumn(),
  jobId: textColumn().nullable(),
  /** Status of the job of the newest generation; null before the first ingestion. */
  status: textColumn<JobStatus>().nullable(),
  lastError: jsonColumn<{ code: string; message: string }>().nullable(),
  activeContentSha256: textColumn().nullable(),
  activeRagConfig: jsonColumn<RagConfig>().nullable(),
  chunkingComplete: booleanColumn(),
  embeddingComplete: booleanColumn(),
  chunksTotal: integerColumn(),
  chunksEmbedded: integerColumn(),
});
export type DocumentView = SqlRow<typeof documentViewRowShape>;

/** `createdBy` holds the linked folder's owner, because access checks read it there; null for a shared folder. */
export const documentLinkRowShape = defineRowShape({
  folderId: uuidColumn(),
  folderName: textColumn(),
  orgId: uuidColumn(),
  acl: textArrayColumn(),
  ownerId: uuidColumn().nullable(),
  createdBy: uuidColumn(),
});
export type DocumentLink = SqlRow<typeof documentLinkRowShape>;

export type FullDocument = DocumentView & { content: string };

/** `pageMap` holds the offset of each page in the Markdown text `body`; null for a format without pages. */
export const conversionTextRowShape = defineRowShape({
  conversionId: uuidColumn(),
  body: textColumn(),
  pageMap: integerArrayColumn().nullable(),
});
export type ConversionText = SqlRow<typeof conversionTextRowShape>;

export type ConvertedDocument = Pick<DocumentRow, 'orgId' | 'name' | 'ragConfig'> & ConversionText;

export const chunkRowShape = defineRowShape({
  ...pickColumns(ChunkModel, 'id', 'chunkIndex', 'content', 'contextualText', 'chunkKind', 'tokenCount').columns,
  ...pickColumns(ChunkModel, 'embeddingModel', 'embeddedAt').columns,
});
export type ChunkRow = SqlRow<typeof chunkRowShape>;

export const chunkInDocumentRowShape = defineRowShape({
  ...pickColumns(ChunkModel, 'id', 'chunkIndex', 'content', 'pageNumber', 'contentOffset').columns,
  documentId: uuidColumn(),
  documentName: textColumn(),
  acl: textArrayColumn(),
});
export type ChunkInContext = Omit<SqlRow<typeof chunkInDocumentRowShape>, 'acl'> & { visibility: Visibility };

export const vectorStorePublicationRowShape = defineRowShape({
  ...pickColumns(DocumentModel, 'orgId', 'acl', 'retrievalSettings').columns,
  documentId: uuidColumn(),
  generation: integerColumn(),
  model: textColumn(),
  outdatedAt: textColumn(),
  leasedUntil: textColumn(),
});
export type VectorStorePublication = SqlRow<typeof vectorStorePublicationRowShape>;

export const documentUsageRowShape = defineRowShape({ documents: bigintColumn(), storageBytes: bigintColumn() });
export type DocumentStorageUsage = SqlRow<typeof documentUsageRowShape>;

export const storedBytesRowShape = defineRowShape({ usedBytes: bigintColumn(), deletedBytes: bigintColumn() });
export type StoredBytes = SqlRow<typeof storedBytesRowShape>;

export const folderDocumentRowShape = defineRowShape({
  ...pickColumns(DocumentModel, 'id', 'acl').columns,
  isElsewhere: booleanColumn(),
});
export type FolderDocument = SqlRow<typeof folderDocumentRowShape>;

import { z } from 'zod';
import { jobIdOfWorkflowPart } from '#src/contracts/workflow-ids.ts';
import { sourceFormats } from '#src/domain/documents/formats.ts';
import { estimatedPageCount } from '#src/domain/documents/pages.ts';
import {
  type ContentHashAndRagConfig,
  findStaleIngestionResults,
  maxChunkTargetTokens,
} from '#src/domain/documents/rag-config.ts';
import { isOneLine } from '#src/domain/text/plain-text.ts';
import { undeterminedLanguage } from '#src/domain/text/words.ts';
import {
  booleanField,
  booleanTextField,
  integerField,
  namePattern,
  notBlankPattern,
  uuidField,
} from '#src/http/request/fields.ts';
import { chunkingMethodField, jobStatusField, lastErrorField } from '#src/http/shared-schemas.ts';
import type { DocumentLink, DocumentView, FullDocument } from './documents.model.ts';

/** Maximum length of a signed download URL: many web servers reject longer URLs. */
const MAX_URL_LENGTH = 8_192;

const name = z
  .string()
  .trim()
  .min(1)
  .max(255)
  .refine(isOneLine, 'must be one line without control characters')
  .meta({ pattern: namePattern });

export const uploadDocumentFields = z.strictObject({
  name: name.optional().describe('The file name when omitted.'),
  target_folder_id: uuidField.optional().describe('Your personal root when omitted.'),
  chunking_method: chunkingMethodField.optional().describe('`token` when omitted.'),
  target_tokens: integerField({ min: 1, max: maxChunkTargetTokens }).optional(),
  overlap_tokens: integerField({ min: 0, max: maxChunkTargetTokens }).optional().describe('Less than `target_tokens`.'),
  ingest: booleanTextField.default(true).describe('Chunk and embed after the upload.'),
});

export const changeDocumentFields = z.strictObject({
  name: name.optional(),
  target_folder_id: uuidField.optional().describe('Moves the document to this folder, out of all others.'),
  chunking_method: chunkingMethodField.optional(),
  target_tokens: integerField({ min: 1, max: maxChunkTargetTokens }).optional(),
  overlap_tokens: integerField({ min: 0, max: maxChunkTargetTokens }).optional().describe('Less than `target_tokens`.'),
  ingest: booleanField
    .optional()
    .describe('Chunk and embed again if needed. `true` by default with a file, else `false`.'),
});

export const pasteDocumentBody = z.strictObject({
  name,
  content: z
    .string()
    .refine((text) => text.trim() !== '', 'must not be blank')
    .meta({ pattern: notBlankPattern }),
  source_format: z.enum(['text', 'markdown', 'code']),
  target_folder_id: uuidField.optional(),
});

export const importFromUrlBody = z.strictObject({
  url: z
    .string()
    .max(MAX_URL_LENGTH)
    .trim()
    .refine((text) => URL.canParse(text) && isOneLine(text), 'must be a URL like https://example.com/page')
    .describe('http or https, on the public internet, without user and password.'),
  target_folder_id: uuidField.optional().describe('Your personal root when omitted.'),
  name: name
    .optional()
    .describe('When omitted: the file name that the server sends, the title of the page, or a part of the URL.'),
});

export const listDocumentsQuery = z.strictObject({
  folder_id: uuidField.optional(),
  limit: integerField({ min: 1, max: 100 }).default(20),
  offset: integerField({ min: 0, max: 1_000_000 }).default(0),
});

export const recentDocumentsQuery = z.strictObject({
  limit: integerField({ min: 1, max: 31 }).default(31),
  mine: booleanTextField.default(false).describe('Only documents that you have created.'),
});

const documentItemSchema = z
  .strictObject({
    id: uuidField,
    name: z.string(),
    folder_ids: z.array(uuidField).describe('The folders that you may read.'),
    source_format: z
      .string()
      .describe(
        `One of ${sourceFormats.join(', ')}. Guessed from name and media type at first, detected from the content at ingestion; \`unknown\` if undetermined.`,
      ),
    import_source_provider: z.string().nullable(),
    import_source_url: z.string().nullable(),
    import_detached: z
      .boolean()
      .describe('A user has replaced the imported file: changes at the source no longer update the document.'),
    char_count: z.int().describe('Length of the converted body; 0 before the first ingestion.'),
    content_preview: z.string(),
    has_stored_original: z.boolean(),
    has_preview_pdf: z.boolean().describe('Whether `GET /documents/{document_id}/preview` returns a PDF.'),
    language: z
      .string()
      .nullable()
      .describe('Detected language of the text (ISO 639-1), which decides on its word search; null if unknown.'),
    page_count: z.int().describe('Estimated for formats without pages; 0 before the first ingestion.'),
    chunking_stale: z.boolean(),
    embedding_stale: z.boolean(),
    chunking_complete: z.boolean(),
    embedding_complete: z.boolean(),
    status: jobStatusField
      .nullable()
      .describe('Status of its newest ingestion, as in the job; null before the first one.'),
    last_error: lastErrorField
      .nullable()
      .describe('Why its newest ingestion has stopped: it failed, is parked until a retry, or was cancelled.'),
    created_by: uuidField,
    created_by_name: z.string(),
    created_at: z.iso.datetime(),
    updated_by: uuidField,
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'DocumentItem' });

const jobId = z.string().nullable().describe('Resolves with `GET /jobs/{job_id}`; null before the first ingestion.');

export const fullDocumentSchema = z
  .strictObject({
    ...documentItemSchema.shape,
    content: z.string().describe('The body as Markdown; empty before the first ingestion.'),
    parse_job_id: jobId,
    converter_job_id: jobId,
    chunking_job_id: jobId,
    embedding_job_id: jobId,
  })
  .meta({ id: 'Document' });

export const documentListSchema = z
  .strictObject({
    items: z.array(documentItemSchema),
    total: z.int(),
    total_pages: z.int(),
    has_more: z.boolean(),
  })
  .meta({ id: 'DocumentList' });

export const downloadUrlQuery = z.strictObject({
  preview: booleanTextField.default(false).describe('The URL downloads the preview instead of the original.'),
});

export const downloadUrlSchema = z.strictObject({
  url: z
    .url()
    .describe('Downloads the file without an access token and supports `Range`; anyone who has the URL can use it.'),
  expires_in: z.int().describe('Seconds until the URL expires.'),
});

export const linkDocumentBody = z.strictObject({
  folder_id: uuidField,
  promote: z.boolean().default(false).describe('Removes the document from all other folders that you may write to.'),
});

export const documentLinksSchema = z
  .strictObject({
    document_id: uuidField,
    links: z
      .array(z.strictObject({ folder_id: uuidField, folder_name: z.string() }))
      .describe('The folders that you may read, the oldest link first.'),
  })
  .meta({ id: 'DocumentLinks' });

type DocumentItemDto = z.infer<typeof documentItemSchema>;
type FullDocumentDto = z.infer<typeof fullDocumentSchema>;

function toDocumentItemDto(document: DocumentView): DocumentItemDto {
  const stale = findStaleIngestionResults(activeSource(document) ?? document, document);
  return {
    id: document.id,
    name: document.name,
    folder_ids: document.folderIds,
    source_format: document.sourceFormat ?? 'unknown',
    import_source_provider: document.importSourceProvider,
    import_source_url: document.importSourceUrl,
    import_detached: document.isDetached,
    char_count: document.charCount,
    content_preview: document.contentPreview,
    has_stored_original: true,
    has_preview_pdf: document.hasPreviewPdf,
    language: document.activeLanguage === undeterminedLanguage ? null : document.activeLanguage,
    page_count: document.pageCount ?? estimatedPageCount(document.charCount),
    chunking_stale: stale.chunking,
    embedding_stale: stale.embedding,
    chunking_complete: document.chunkingComplete,
    embedding_complete: document.embeddingComplete,
    status: document.status,
    last_error: document.lastError,
    created_by: document.createdBy,
    created_by_name: document.createdByName,
    created_at: document.createdAt.toISOString(),
    updated_by: document.updatedBy,
    updated_at: document.updatedAt.toISOString(),
  };
}

export function toFullDocumentDto(document: FullDocument): FullDocumentDto {
  const part = (stage: string) => (document.jobId === null ? null : jobIdOfWorkflowPart(document.jobId, stage));
  return {
    ...toDocumentItemDto(document),
    content: document.content,
    parse_job_id: part('parse'),
    converter_job_id: part('convert'),
    chunking_job_id: part('chunk'),
    embedding_job_id: part('embed'),
  };
}

export function toDocumentListDto(
  page: { items: DocumentView[]; total: number },
  asked: { limit: number; offset: number },
): z.infer<typeof documentListSchema> {
  return {
    items: page.items.map(toDocumentItemDto),
    total: page.total,
    total_pages: Math.ceil(page.total / asked.limit),
    has_more: asked.offset + page.items.length < page.total,
  };
}

export function toDocumentLinksDto(
  documentId: string,
  links: readonly DocumentLink[],
): z.infer<typeof documentLinksSchema> {
  return {
    document_id: documentId,
    links: links.map(({ folderId, folderName }) => ({ folder_id: folderId, folder_name: folderName })),
  };
}

function activeSource({ activeContentSha256, activeRagConfig }: DocumentView): ContentHashAndRagConfig | null {
  if (activeContentSha256 === null || activeRagConfig === null) return null;
  return { contentSha256: activeContentSha256, ragConfig: activeRagConfig };
}

import { z } from 'zod';
import { integerField, uuidField, visibilityField } from '#src/http/request/fields.ts';
import type { ChunkInContext, ChunkRow, DocumentView } from './documents.model.ts';

export const chunkListSchema = z.strictObject({
  document_id: uuidField,
  items: z.array(
    z.strictObject({
      id: uuidField,
      chunk_index: z.int(),
      content: z.string(),
      contextual_text: z.string().nullable(),
      chunk_kind: z.string().nullable(),
      token_count: z.int(),
      embedded: z.boolean(),
      embedding_model: z.string().nullable(),
      embedded_at: z.iso.datetime().nullable(),
    }),
  ),
});

const bodyPosition = integerField({ min: 0, max: 2_147_483_647 }).optional();

export const chunkQuery = z
  .strictObject({
    quote_offset: bodyPosition.describe('The `content_offset` of a citation of this chunk.'),
    quote_length: bodyPosition.describe("Length of the citation's `quote` in UTF-16 code units."),
  })
  .superRefine(({ quote_offset, quote_length }, context) => {
    if ((quote_offset === undefined) === (quote_length === undefined)) return;
    const missing = quote_offset === undefined ? 'quote_offset' : 'quote_length';
    const other = quote_offset === undefined ? 'quote_length' : 'quote_offset';
    context.addIssue({ code: 'custom', path: [missing], message: `is required together with ${other}` });
  });

type ChunkQuery = z.output<typeof chunkQuery>;

export const chunkInContextSchema = z
  .strictObject({
    chunk_id: uuidField,
    chunk_index: z.int(),
    content: z.string(),
    document_id: uuidField,
    document_name: z.string(),
    visibility: visibilityField,
    page_number: z.int(),
    content_offset: z.int().describe('Where the chunk starts in the body, in UTF-16 code units.'),
    highlight: z
      .strictObject({ start: z.int(), end: z.int() })
      .nullable()
      .describe(
        'Where the requested quote stands in `content` (UTF-16 code units, end exclusive); null if none was requested or the chunk does not contain it.',
      ),
  })
  .meta({ id: 'ChunkInContext' });

export const chunkingStatusSchema = z.strictObject({
  document_id: uuidField,
  chunking_complete: z.boolean(),
  chunk_count: z.int(),
});

export const embeddingStatusSchema = z.strictObject({
  document_id: uuidField,
  embedding_complete: z.boolean(),
  chunks_total: z.int(),
  chunks_embedded: z.int(),
});

export function toChunkListDto(documentId: string, chunks: ChunkRow[]): z.infer<typeof chunkListSchema> {
  return {
    document_id: documentId,
    items: chunks.map((chunk) => ({
      id: chunk.id,
      chunk_index: chunk.chunkIndex,
      content: chunk.content,
      contextual_text: chunk.contextualText,
      chunk_kind: chunk.chunkKind,
      token_count: chunk.tokenCount,
      embedded: chunk.embeddedAt !== null,
      embedding_model: chunk.embeddingModel,
      embedded_at: chunk.embeddedAt?.toISOString() ?? null,
    })),
  };
}

export function toChunkInContextDto(
  chunk: ChunkInContext,
  { quote_offset, quote_length }: ChunkQuery,
): z.infer<typeof chunkInContextSchema> {
  const start = (quote_offset ?? 0) - chunk.contentOffset;
  const end = start + (quote_length ?? 0);
  return {
    chunk_id: chunk.id,
    chunk_index: chunk.chunkIndex,
    content: chunk.content,
    document_id: chunk.documentId,
    document_name: chunk.documentName,
    visibility: chunk.visibility,
    page_number: chunk.pageNumber,
    content_offset: chunk.contentOffset,
    highlight: start >= 0 && start < end && end <= chunk.content.length ? { start, end } : null,
  };
}

export function toChunkingStatusDto(document: DocumentView): z.infer<typeof chunkingStatusSchema> {
  return {
    document_id: document.id,
    chunking_complete: document.chunkingComplete,
    chunk_count: document.chunksTotal,
  };
}

export function toEmbeddingStatusDto(document: DocumentView): z.infer<typeof embeddingStatusSchema> {
  return {
    document_id: document.id,
    embedding_complete: document.embeddingComplete,
    chunks_total: document.chunksTotal,
    chunks_embedded: document.chunksEmbedded,
  };
}

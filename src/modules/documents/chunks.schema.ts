import { z } from 'zod';
import { uuidField, visibilityField } from '#src/http/request/fields.ts';
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

export function toChunkInContextDto(chunk: ChunkInContext): z.infer<typeof chunkInContextSchema> {
  return {
    chunk_id: chunk.id,
    chunk_index: chunk.chunkIndex,
    content: chunk.content,
    document_id: chunk.documentId,
    document_name: chunk.documentName,
    visibility: chunk.visibility,
    page_number: chunk.pageNumber,
    content_offset: chunk.contentOffset,
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

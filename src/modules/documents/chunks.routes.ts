import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  chunkInContextSchema,
  chunkingStatusSchema,
  chunkListSchema,
  chunkQuery,
  embeddingStatusSchema,
  toChunkInContextDto,
  toChunkingStatusDto,
  toChunkListDto,
  toEmbeddingStatusDto,
} from './chunks.schema.ts';
import type { DocumentsService } from './documents.service.ts';

const params = z.strictObject({ document_id: uuidPathParam('document_not_found') });

export function chunksRoutes(documents: DocumentsService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/documents/chunks/:chunk_id',
      operationId: 'getChunk',
      tag: 'documents',
      summary: 'A chunk, for example of a citation, and its position in the document',
      access: 'document:read',
      params: z.strictObject({ chunk_id: uuidPathParam('chunk_not_found') }),
      query: chunkQuery,
      responses: { 200: { description: 'The chunk', schema: chunkInContextSchema } },
      errors: ['chunk_not_found'],
      handle: async ({ actor, params: { chunk_id }, query }) =>
        okAnswer(toChunkInContextDto(await documents.getChunk(actor, chunk_id), query)),
    }),
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/chunks',
      operationId: 'listChunks',
      tag: 'documents',
      summary: 'The chunks of a document, in order; empty before its first ingestion is done',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The chunks', schema: chunkListSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        okAnswer(toChunkListDto(document_id, await documents.listChunks(actor, document_id))),
    }),
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/chunking-status',
      operationId: 'getChunkingStatus',
      tag: 'documents',
      summary: 'Whether the newest ingestion has chunked the document',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The state of chunking', schema: chunkingStatusSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        okAnswer(toChunkingStatusDto(await documents.getView(actor, document_id))),
    }),
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/embedding-status',
      operationId: 'getEmbeddingStatus',
      tag: 'documents',
      summary: 'Whether the newest ingestion has embedded the document, and its progress',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The state of embedding', schema: embeddingStatusSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        okAnswer(toEmbeddingStatusDto(await documents.getView(actor, document_id))),
    }),
  ];
}

import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { okAnswer, okAnswerWithVersion } from '#src/http/response/answers.ts';
import { defineRoute, formOrJsonBody, type HttpRoute } from '#src/http/routing/route.ts';
import {
  chunkPreviewsSchema,
  fromPreviewDocumentFields,
  fromPreviewTextBody,
  fromRagConfigDto,
  ingestRequestBody,
  ingestRequestResultSchema,
  previewDocumentFields,
  previewTextBody,
  ragConfigResultSchema,
  ragConfigSchema,
  toChunkPreviewsDto,
  toIngestRequestResultDto,
  toRagConfigDto,
} from './rag.schema.ts';
import type { RagService } from './rag.service.ts';

const params = z.strictObject({ document_id: uuidPathParam('document_not_found') });

/** Maximum size of a preview request: a million characters, of which some take six bytes in JSON. */
const previewLimitBytes = 8 * 1024 ** 2;

export function ragRoutes(rag: RagService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/rag/config/:document_id',
      operationId: 'getRagConfig',
      tag: 'rag',
      summary: 'How a document is cut and found',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The configuration', schema: ragConfigResultSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) => {
        const { config, version } = await rag.getConfig(actor, document_id);
        return okAnswerWithVersion({ config: toRagConfigDto(config) }, { version });
      },
    }),
    defineRoute({
      method: 'put',
      path: '/rag/config/:document_id',
      operationId: 'setRagConfig',
      tag: 'rag',
      summary: 'Change how a document is cut and found; a changed cut needs another ingestion',
      access: 'document:write',
      takesIfMatch: true,
      params,
      body: ragConfigSchema,
      responses: { 200: { description: 'The configuration as it is now', schema: ragConfigResultSchema } },
      errors: ['document_not_found', 'forbidden', 'unknown_model', 'model_unavailable'],
      handle: async ({ actor, params: { document_id }, body, expectedVersions }) => {
        const config = await rag.setConfig(actor, document_id, fromRagConfigDto(body), expectedVersions);
        return okAnswer({ config: toRagConfigDto(config) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/rag/ingest/:document_id',
      operationId: 'ingestDocument',
      tag: 'rag',
      summary: 'Chunk and embed a document where that is needed, or once more from its original',
      access: 'document:write',
      params,
      body: ingestRequestBody,
      idempotent: true,
      responses: { 200: { description: 'The jobs that do it, or have done it', schema: ingestRequestResultSchema } },
      errors: ['document_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id }, body, newId }) =>
        okAnswer(toIngestRequestResultDto(await rag.ingest(actor, document_id, { ...body, reservedId: newId }))),
    }),
    defineRoute({
      method: 'post',
      path: '/rag/chunks/preview',
      operationId: 'previewChunks',
      tag: 'rag',
      summary: 'How a text would be cut; nothing of it is stored',
      access: 'user',
      limits: [{ limit: 'preview', by: 'user' }],
      body: previewTextBody,
      bodyLimitBytes: previewLimitBytes,
      responses: { 200: { description: 'The chunks, in order', schema: chunkPreviewsSchema } },
      errors: ['preview_too_large', 'too_large', 'unknown_model', 'model_unavailable'],
      handle: async ({ actor, body, signal }) =>
        okAnswer(toChunkPreviewsDto(await rag.previewText(actor, fromPreviewTextBody(body), signal))),
    }),
    defineRoute({
      method: 'post',
      path: '/rag/documents/:document_id/chunks/preview',
      operationId: 'previewDocumentChunks',
      tag: 'rag',
      summary: 'How a document would be cut; nothing of it is stored',
      access: 'document:read',
      limits: [{ limit: 'preview', by: 'user' }],
      params,
      body: formOrJsonBody(previewDocumentFields),
      responses: { 200: { description: 'The chunks, in order', schema: chunkPreviewsSchema } },
      errors: ['document_not_found', 'document_not_converted', 'preview_too_large', 'too_large', 'model_unavailable'],
      handle: async ({ actor, params: { document_id }, body, signal }) => {
        const chunking = fromPreviewDocumentFields(body);
        return okAnswer(toChunkPreviewsDto(await rag.previewDocument(actor, document_id, chunking, signal)));
      },
    }),
  ];
}

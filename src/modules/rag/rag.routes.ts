import { z } from 'zod';
import { ok } from '#src/http/answers.ts';
import { idParam } from '#src/http/params.ts';
import { type Route, route } from '#src/http/route.ts';
import {
  fromRagConfigDto,
  ingestAnswerSchema,
  ingestBody,
  ragConfigAnswerSchema,
  ragConfigSchema,
  toIngestAnswerDto,
  toRagConfigDto,
} from './rag.schema.ts';
import type { RagService } from './rag.service.ts';

const params = z.strictObject({ document_id: idParam('document_not_found') });

export function ragRoutes(rag: RagService): Route[] {
  return [
    route({
      method: 'get',
      path: '/rag/config/:document_id',
      operationId: 'getRagConfig',
      tag: 'rag',
      summary: 'How a document is cut and found',
      access: 'user',
      params,
      responses: { 200: { description: 'The configuration', schema: ragConfigAnswerSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        ok({ config: toRagConfigDto(await rag.getConfig(actor, document_id)) }),
    }),
    route({
      method: 'put',
      path: '/rag/config/:document_id',
      operationId: 'setRagConfig',
      tag: 'rag',
      summary: 'Change how a document is cut and found; a changed cut needs another ingestion',
      access: 'user',
      params,
      body: ragConfigSchema,
      responses: { 200: { description: 'The configuration as it is now', schema: ragConfigAnswerSchema } },
      errors: ['document_not_found', 'forbidden', 'unknown_model'],
      handle: async ({ actor, params: { document_id }, body }) =>
        ok({ config: toRagConfigDto(await rag.setConfig(actor, document_id, fromRagConfigDto(body))) }),
    }),
    route({
      method: 'post',
      path: '/rag/ingest/:document_id',
      operationId: 'ingestDocument',
      tag: 'rag',
      summary: 'Chunk and embed a document where that is needed, or once more from its original',
      access: 'user',
      params,
      body: ingestBody,
      idempotent: true,
      responses: { 200: { description: 'The jobs that do it, or have done it', schema: ingestAnswerSchema } },
      errors: ['document_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id }, body }) =>
        ok(toIngestAnswerDto(await rag.ingest(actor, document_id, body))),
    }),
  ];
}

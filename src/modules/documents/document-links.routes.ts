import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { created, noContent, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { documentLinksSchema, linkDocumentBody, toDocumentLinksDto } from './document-links.schema.ts';
import type { DocumentLinksService } from './document-links.service.ts';

const params = z.strictObject({ document_id: idParam('document_not_found') });
const linkParams = z.strictObject({ ...params.shape, folder_id: idParam('folder_not_found') });

export function documentLinksRoutes(links: DocumentLinksService): Route[] {
  return [
    route({
      method: 'get',
      path: '/documents/:document_id/links',
      operationId: 'listDocumentLinks',
      tag: 'documents',
      summary: 'The folders that a document is in',
      access: 'document:read',
      params,
      responses: { 200: { description: 'Those that you may read', schema: documentLinksSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        ok(toDocumentLinksDto(document_id, await links.list(actor, document_id))),
    }),
    route({
      method: 'post',
      path: '/documents/:document_id/links',
      operationId: 'linkDocument',
      tag: 'documents',
      summary: 'Put a document into one more folder, or out of its folders into this one',
      access: 'document:write',
      params,
      body: linkDocumentBody,
      idempotent: true,
      responses: { 201: { description: 'The folders that it is in now', schema: documentLinksSchema } },
      errors: ['document_not_found', 'folder_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id }, body: { folder_id, promote } }) =>
        created(toDocumentLinksDto(document_id, await links.add(actor, document_id, { folderId: folder_id, promote }))),
    }),
    route({
      method: 'delete',
      path: '/documents/:document_id/links/:folder_id',
      operationId: 'unlinkDocument',
      tag: 'documents',
      summary: 'Take a document out of one of its folders',
      access: 'document:write',
      params: linkParams,
      responses: { 204: { description: 'It is in its other folders only' } },
      errors: ['document_not_found', 'folder_not_found', 'forbidden', 'last_link'],
      handle: async ({ actor, params: { document_id, folder_id } }) => {
        await links.remove(actor, document_id, folder_id);
        return noContent();
      },
    }),
  ];
}

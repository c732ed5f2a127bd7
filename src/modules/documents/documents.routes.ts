import { z } from 'zod';
import { readableFormats } from '#src/domain/documents/formats.ts';
import { idParam } from '#src/http/request/validation.ts';
import { created, noContent, ok, versioned } from '#src/http/response/answers.ts';
import { multipart, multipartOrJson, type Route, route } from '#src/http/routing/route.ts';
import {
  changeDocumentFields,
  documentListSchema,
  fullDocumentSchema,
  listDocumentsQuery,
  pasteDocumentBody,
  recentDocumentsQuery,
  toDocumentListDto,
  toFullDocumentDto,
  uploadDocumentFields,
} from './documents.schema.ts';
import type { DocumentsService } from './documents.service.ts';
import type { UploadsService } from './uploads.service.ts';

const params = z.strictObject({ document_id: idParam('document_not_found') });
const storageErrors = ['storage_quota_exceeded', 'blob_store_refused'] as const;
/** Of whatever makes a document. */
export const creationErrors = ['folder_not_found', 'forbidden', 'document_limit_reached', ...storageErrors] as const;

/** Escaping may triple a text on the wire; what is longer than a book is better uploaded as a file. */
const pasteLimitBytes = 8 * 1024 ** 2;

export function documentsRoutes(documents: DocumentsService, uploads: UploadsService): Route[] {
  return [
    route({
      method: 'post',
      path: '/documents',
      operationId: 'uploadDocument',
      tag: 'documents',
      summary: `Upload a file and, unless told otherwise, chunk and embed it; read are ${readableFormats}`,
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: multipart({
        fields: uploadDocumentFields,
        store: uploads.store,
        discard: uploads.discard,
      }),
      idempotent: true,
      responses: { 201: { description: 'The document, its ingestion queued', schema: fullDocumentSchema } },
      errors: [...creationErrors, 'payload_too_large'],
      handle: async ({ actor, body, newId }) => {
        const document = await documents.upload(actor, {
          id: newId,
          file: body.file,
          name: body.name,
          targetFolderId: body.target_folder_id,
          chunking: {
            method: body.chunking_method,
            targetTokens: body.target_tokens,
            overlapTokens: body.overlap_tokens,
          },
          ingest: body.ingest,
        });
        return created(toFullDocumentDto(document));
      },
    }),
    route({
      method: 'post',
      path: '/documents/paste',
      operationId: 'pasteDocument',
      tag: 'documents',
      summary: 'Make a document of a text',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: pasteDocumentBody,
      bodyLimitBytes: pasteLimitBytes,
      idempotent: true,
      responses: { 201: { description: 'The document, its ingestion queued', schema: fullDocumentSchema } },
      errors: creationErrors,
      handle: async ({ actor, body, newId }) => {
        const document = await documents.paste(actor, {
          id: newId,
          name: body.name,
          content: body.content,
          sourceFormat: body.source_format,
          targetFolderId: body.target_folder_id,
        });
        return created(toFullDocumentDto(document));
      },
    }),
    route({
      method: 'get',
      path: '/documents',
      operationId: 'listDocuments',
      tag: 'documents',
      summary: 'The documents that you may read, newest change first',
      access: 'user',
      query: listDocumentsQuery,
      responses: { 200: { description: 'A page of documents', schema: documentListSchema } },
      errors: ['folder_not_found'],
      handle: async ({ actor, query }) => {
        const page = await documents.list(actor, { ...query, folderId: query.folder_id });
        return ok(toDocumentListDto(page, query));
      },
    }),
    route({
      method: 'get',
      path: '/documents/recent',
      operationId: 'listRecentDocuments',
      tag: 'documents',
      summary: 'The documents that you may read, or have made, that were changed last',
      access: 'user',
      query: recentDocumentsQuery,
      responses: { 200: { description: 'The newest, of how many', schema: documentListSchema } },
      handle: async ({ actor, query }) => {
        const page = await documents.listRecent(actor, query);
        return ok(toDocumentListDto(page, { limit: query.limit, offset: 0 }));
      },
    }),
    route({
      method: 'get',
      path: '/documents/:document_id',
      operationId: 'getDocument',
      tag: 'documents',
      summary: 'A document with its content and the ids of its jobs',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The document', schema: fullDocumentSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) => {
        const document = await documents.get(actor, document_id);
        return versioned(toFullDocumentDto(document), document);
      },
    }),
    route({
      method: 'patch',
      path: '/documents/:document_id',
      operationId: 'changeDocument',
      tag: 'documents',
      summary: 'Rename or move a document, replace its original, or change how it is cut',
      access: 'document:write',
      takesIfMatch: true,
      limits: [{ limit: 'upload', by: 'user' }],
      params,
      body: multipartOrJson({
        fields: changeDocumentFields,
        store: (actor, upload, { document_id }) => uploads.store(actor, { ...upload, replaces: document_id }),
        discard: uploads.discard,
      }),
      responses: { 200: { description: 'The document as it is now', schema: fullDocumentSchema } },
      errors: ['document_not_found', 'folder_not_found', 'forbidden', ...storageErrors],
      handle: async ({ actor, params: { document_id }, body, expectedVersions }) => {
        const change = {
          name: body.name,
          targetFolderId: body.target_folder_id,
          file: body.file,
          chunking: {
            method: body.chunking_method,
            targetTokens: body.target_tokens,
            overlapTokens: body.overlap_tokens,
          },
          ingest: body.ingest ?? body.file !== undefined,
          expected: expectedVersions,
        };
        const document = await documents.change(actor, document_id, change);
        return ok(toFullDocumentDto(document));
      },
    }),
    route({
      method: 'delete',
      path: '/documents/:document_id',
      operationId: 'deleteDocument',
      tag: 'documents',
      summary: 'Delete a document, wherever it is linked, with all that was made of it',
      access: 'document:write',
      params,
      responses: { 204: { description: 'Nobody can read it any more' } },
      errors: ['document_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id } }) => {
        await documents.remove(actor, document_id);
        return noContent();
      },
    }),
  ];
}

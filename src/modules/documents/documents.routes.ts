import { z } from 'zod';
import { readableFormatsDescription } from '#src/domain/documents/formats.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import {
  createdAnswer,
  fileAnswer,
  noContentAnswer,
  okAnswer,
  okAnswerWithVersion,
} from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute, multipartBody, multipartOrJsonBody } from '#src/http/routing/route.ts';
import type { DocumentFile, DocumentFilesService } from './document-files.service.ts';
import type { DocumentLinksService } from './document-links.service.ts';
import {
  changeDocumentFields,
  documentLinksSchema,
  documentListSchema,
  downloadUrlQuery,
  downloadUrlSchema,
  fullDocumentSchema,
  importFromUrlBody,
  linkDocumentBody,
  listDocumentsQuery,
  pasteDocumentBody,
  recentDocumentsQuery,
  toDocumentLinksDto,
  toDocumentListDto,
  toFullDocumentDto,
  uploadDocumentFields,
} from './documents.schema.ts';
import type { DocumentsService } from './documents.service.ts';
import type { IngestionWait } from './ingestion-wait.service.ts';
import type { UploadsService } from './uploads.service.ts';
import type { WebImportService } from './web-import.service.ts';

const params = z.strictObject({ document_id: uuidPathParam('document_not_found') });
const linkParams = z.strictObject({ ...params.shape, folder_id: uuidPathParam('folder_not_found') });

const storageErrors = ['storage_quota_exceeded', 'blob_store_refused'] as const;
const creationErrors = ['folder_not_found', 'forbidden', 'document_limit_reached', ...storageErrors] as const;

const fileErrors = [
  'document_not_found',
  'malware_found',
  'range_not_satisfiable',
  'blob_missing',
  'blob_store_refused',
] as const;

const created = {
  201: { description: 'The document, its ingestion queued, or over with `Prefer: wait`', schema: fullDocumentSchema },
} as const;

/** Maximum size of a request with a pasted text: enough for a book, whose size JSON escapes may triple. */
const pasteLimitBytes = 8 * 1024 ** 2;

export function documentsRoutes(
  documents: DocumentsService,
  uploads: UploadsService,
  whenIngested: IngestionWait,
): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/documents',
      operationId: 'uploadDocument',
      tag: 'documents',
      summary: `Upload a file and, by default, chunk and embed it; readable formats are ${readableFormatsDescription}`,
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: multipartBody({
        fields: uploadDocumentFields,
        store: uploads.store,
        discard: uploads.discard,
      }),
      idempotent: true,
      waits: true,
      responses: created,
      errors: [...creationErrors, 'payload_too_large'],
      handle: async ({ actor, body, newId, ...wait }) => {
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
        return createdAnswer(toFullDocumentDto(await whenIngested(actor, document, wait)));
      },
    }),
    defineRoute({
      method: 'post',
      path: '/documents/paste',
      operationId: 'pasteDocument',
      tag: 'documents',
      summary: 'Create a document from pasted text',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: pasteDocumentBody,
      bodyLimitBytes: pasteLimitBytes,
      idempotent: true,
      waits: true,
      responses: created,
      errors: creationErrors,
      handle: async ({ actor, body, newId, ...wait }) => {
        const document = await documents.paste(actor, {
          id: newId,
          name: body.name,
          content: body.content,
          sourceFormat: body.source_format,
          targetFolderId: body.target_folder_id,
        });
        return createdAnswer(toFullDocumentDto(await whenIngested(actor, document, wait)));
      },
    }),
    defineRoute({
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
        return okAnswer(toDocumentListDto(page, query));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/documents/recent',
      operationId: 'listRecentDocuments',
      tag: 'documents',
      summary: 'The most recently changed documents that you may read, or that you have created',
      access: 'user',
      query: recentDocumentsQuery,
      responses: { 200: { description: 'The newest documents and the total', schema: documentListSchema } },
      handle: async ({ actor, query }) => {
        const page = await documents.listRecent(actor, query);
        return okAnswer(toDocumentListDto(page, { limit: query.limit, offset: 0 }));
      },
    }),
    defineRoute({
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
        return okAnswerWithVersion(toFullDocumentDto(document), document);
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/documents/:document_id',
      operationId: 'changeDocument',
      tag: 'documents',
      summary: 'Rename or move a document, replace its original, or change how it is chunked',
      access: 'document:write',
      takesIfMatch: true,
      limits: [{ limit: 'upload', by: 'user' }],
      params,
      body: multipartOrJsonBody({
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
        return okAnswer(toFullDocumentDto(document));
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/documents/:document_id',
      operationId: 'deleteDocument',
      tag: 'documents',
      summary: 'Delete a document from all its folders, with everything derived from it',
      access: 'document:write',
      params,
      responses: { 204: { description: 'The document is no longer readable' } },
      errors: ['document_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id } }) => {
        await documents.remove(actor, document_id);
        return noContentAnswer();
      },
    }),
  ];
}

export function webImportRoutes(webImport: WebImportService, whenIngested: IngestionWait): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/documents/import-from-url',
      operationId: 'importDocumentFromUrl',
      tag: 'documents',
      summary: 'Fetch a page or a file from the public web and create a document from it',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      fetchesFile: true,
      body: importFromUrlBody,
      idempotent: true,
      waits: true,
      responses: created,
      errors: [
        ...creationErrors,
        ...(['url_not_allowed', 'url_unreachable', 'empty_document', 'payload_too_large'] as const),
      ],
      handle: async ({ actor, body, newId, ...wait }) => {
        const { url, name, target_folder_id: targetFolderId } = body;
        const input = { id: newId, url, name, targetFolderId };
        const document = await webImport.importFromUrl(actor, input);
        return createdAnswer(toFullDocumentDto(await whenIngested(actor, document, wait)));
      },
    }),
  ];
}

export function documentLinksRoutes(links: DocumentLinksService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/links',
      operationId: 'listDocumentLinks',
      tag: 'documents',
      summary: 'The folders that a document is in',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The folders that you may read', schema: documentLinksSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id } }) =>
        okAnswer(toDocumentLinksDto(document_id, await links.list(actor, document_id))),
    }),
    defineRoute({
      method: 'post',
      path: '/documents/:document_id/links',
      operationId: 'linkDocument',
      tag: 'documents',
      summary: 'Put a document into one more folder, or move it from its other folders to this one',
      access: 'document:write',
      params,
      body: linkDocumentBody,
      idempotent: true,
      responses: { 201: { description: 'The folders that the document is in now', schema: documentLinksSchema } },
      errors: ['document_not_found', 'folder_not_found', 'forbidden'],
      handle: async ({ actor, params: { document_id }, body: { folder_id, promote } }) =>
        createdAnswer(
          toDocumentLinksDto(document_id, await links.add(actor, document_id, { folderId: folder_id, promote })),
        ),
    }),
    defineRoute({
      method: 'delete',
      path: '/documents/:document_id/links/:folder_id',
      operationId: 'unlinkDocument',
      tag: 'documents',
      summary: 'Take a document out of one of its folders',
      access: 'document:write',
      params: linkParams,
      responses: { 204: { description: 'The document is in its other folders only' } },
      errors: ['document_not_found', 'folder_not_found', 'forbidden', 'last_link'],
      handle: async ({ actor, params: { document_id, folder_id } }) => {
        await links.remove(actor, document_id, folder_id);
        return noContentAnswer();
      },
    }),
  ];
}

export function documentFilesRoutes(files: DocumentFilesService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/file',
      operationId: 'downloadDocument',
      tag: 'documents',
      summary: 'The stored original; a part of it with `Range`',
      access: 'document:read',
      params,
      responses: fileResponses('*/*'),
      errors: fileErrors,
      handle: async ({ actor, params: { document_id } }) => download(await files.get(actor, document_id)),
    }),
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/preview',
      operationId: 'downloadPreview',
      tag: 'documents',
      summary: 'The PDF preview of an office document; a part of it with `Range`',
      access: 'document:read',
      params,
      responses: fileResponses('application/pdf'),
      errors: [...fileErrors, 'preview_not_found'],
      handle: async ({ actor, params: { document_id } }) => download(await files.getPreview(actor, document_id)),
    }),
    defineRoute({
      method: 'get',
      path: '/documents/:document_id/download-url',
      operationId: 'signDownloadUrl',
      tag: 'documents',
      summary: 'A temporary URL that downloads the stored original, or its preview, without an access token',
      access: 'document:read',
      params,
      query: downloadUrlQuery,
      responses: { 200: { description: 'The URL', schema: downloadUrlSchema } },
      errors: ['document_not_found', 'preview_not_found', 'malware_found'],
      handle: async ({ actor, params: { document_id }, query, publicUrl }) => {
        const options = { publicUrl, isPreview: query.preview };
        const { url, expiresInSeconds } = await files.signUrl(actor, document_id, options);
        return okAnswer({ url, expires_in: expiresInSeconds }, { 'Cache-Control': 'no-store' });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/files/:token',
      operationId: 'downloadSignedFile',
      tag: 'documents',
      summary: 'The file of a URL from `GET /documents/{document_id}/download-url`',
      access: 'public',
      params: z.strictObject({ token: z.string() }),
      responses: fileResponses('*/*'),
      errors: [...fileErrors, 'preview_not_found', 'file_url_invalid', 'file_url_expired'],
      handle: async ({ params: { token } }) => download(await files.getSigned(token)),
    }),
  ];
}

function download({ fileName, mediaType, sizeBytes, sha256, open }: DocumentFile) {
  return fileAnswer({ fileName, mediaType, sizeBytes, etag: sha256, open });
}

function fileResponses(contentType: string) {
  return {
    200: { description: 'The file', contentType },
    206: { description: 'The requested range', contentType },
  };
}

import { z } from 'zod';
import { file, ok } from '#src/http/answers.ts';
import { idParam } from '#src/http/params.ts';
import { type Route, route } from '#src/http/route.ts';
import { downloadUrlSchema } from './document-files.schema.ts';
import type { DocumentFile, DocumentFilesService } from './document-files.service.ts';

const params = z.strictObject({ document_id: idParam('document_not_found') });

const responses = {
  200: { description: 'The original', contentType: 'application/octet-stream' },
  206: { description: 'The part that was asked for', contentType: 'application/octet-stream' },
} as const;
const errors = ['document_not_found', 'range_not_satisfiable', 'blob_missing', 'blob_store_refused'] as const;

/** The originals of documents. */
export function documentFilesRoutes(files: DocumentFilesService): Route[] {
  return [
    route({
      method: 'get',
      path: '/documents/:document_id/file',
      operationId: 'downloadDocument',
      tag: 'documents',
      summary: 'The stored original; a part of it with `Range`',
      access: 'document:read',
      params,
      responses,
      errors,
      handle: async ({ actor, params: { document_id } }) => download(await files.get(actor, document_id)),
    }),
    route({
      method: 'get',
      path: '/documents/:document_id/download-url',
      operationId: 'signDownloadUrl',
      tag: 'documents',
      summary: 'An address that gives the stored original without a token, for a while',
      access: 'document:read',
      params,
      responses: { 200: { description: 'The address', schema: downloadUrlSchema } },
      errors: ['document_not_found'],
      handle: async ({ actor, params: { document_id }, publicUrl }) => {
        const { url, expiresInSeconds } = await files.signUrl(actor, document_id, publicUrl);
        return ok({ url, expires_in: expiresInSeconds }, { 'Cache-Control': 'no-store' });
      },
    }),
    route({
      method: 'get',
      path: '/files/:token',
      operationId: 'downloadSignedFile',
      tag: 'documents',
      summary: 'The original that an address of `GET /documents/{document_id}/download-url` is about',
      access: 'public',
      params: z.strictObject({ token: z.string() }),
      responses,
      errors: [...errors, 'file_url_invalid', 'file_url_expired'],
      handle: async ({ params: { token } }) => download(await files.getSigned(token)),
    }),
  ];
}

function download({ document, mediaType, open }: DocumentFile) {
  const { fileName, sizeBytes, contentSha256: etag } = document;
  return file({ fileName, mediaType, sizeBytes, etag, open });
}

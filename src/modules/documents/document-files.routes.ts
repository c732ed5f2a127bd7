import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { file, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { downloadUrlQuery, downloadUrlSchema } from './document-files.schema.ts';
import type { DocumentFile, DocumentFilesService } from './document-files.service.ts';

const params = z.strictObject({ document_id: idParam('document_not_found') });

const asFile = (contentType: string) => ({
  200: { description: 'The file', contentType },
  206: { description: 'The part that was asked for', contentType },
});
/** Of whatever type the original is. */
const anyFile = asFile('*/*');
const errors = [
  'document_not_found',
  'malware_found',
  'range_not_satisfiable',
  'blob_missing',
  'blob_store_refused',
] as const;

/** The originals of documents, and how they look on paper. */
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
      responses: anyFile,
      errors,
      handle: async ({ actor, params: { document_id } }) => download(await files.get(actor, document_id)),
    }),
    route({
      method: 'get',
      path: '/documents/:document_id/preview',
      operationId: 'downloadPreview',
      tag: 'documents',
      summary: 'A PDF of an office document, as its program would print it; a part of it with `Range`',
      access: 'document:read',
      params,
      responses: asFile('application/pdf'),
      errors: [...errors, 'preview_not_found'],
      handle: async ({ actor, params: { document_id } }) => download(await files.getPreview(actor, document_id)),
    }),
    route({
      method: 'get',
      path: '/documents/:document_id/download-url',
      operationId: 'signDownloadUrl',
      tag: 'documents',
      summary: 'An address that gives the stored original, or its preview, without a token, for a while',
      access: 'document:read',
      params,
      query: downloadUrlQuery,
      responses: { 200: { description: 'The address', schema: downloadUrlSchema } },
      errors: ['document_not_found', 'preview_not_found', 'malware_found'],
      handle: async ({ actor, params: { document_id }, query, publicUrl }) => {
        const wanted = { publicUrl, isPreview: query.preview };
        const { url, expiresInSeconds } = await files.signUrl(actor, document_id, wanted);
        return ok({ url, expires_in: expiresInSeconds }, { 'Cache-Control': 'no-store' });
      },
    }),
    route({
      method: 'get',
      path: '/files/:token',
      operationId: 'downloadSignedFile',
      tag: 'documents',
      summary: 'The file that an address of `GET /documents/{document_id}/download-url` is about',
      access: 'public',
      params: z.strictObject({ token: z.string() }),
      responses: anyFile,
      errors: [...errors, 'preview_not_found', 'file_url_invalid', 'file_url_expired'],
      handle: async ({ params: { token } }) => download(await files.getSigned(token)),
    }),
  ];
}

function download({ fileName, mediaType, sizeBytes, sha256, open }: DocumentFile) {
  return file({ fileName, mediaType, sizeBytes, etag: sha256, open });
}

import { created } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { DocumentWebImport } from './document-web-import.ts';
import { creationErrors } from './documents.routes.ts';
import { fullDocumentSchema, toFullDocumentDto } from './documents.schema.ts';
import { importFromUrlBody } from './web-import.schema.ts';

/** Documents that are fetched. */
export function webImportRoutes(webImport: DocumentWebImport): Route[] {
  return [
    route({
      method: 'post',
      path: '/documents/import-from-url',
      operationId: 'importDocumentFromUrl',
      tag: 'documents',
      summary: 'Fetch a page or a file from the public web and make a document of it',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      fetchesFile: true,
      body: importFromUrlBody,
      idempotent: true,
      responses: { 201: { description: 'The document, its ingestion queued', schema: fullDocumentSchema } },
      errors: [
        ...creationErrors,
        ...(['url_not_allowed', 'url_unreachable', 'empty_document', 'payload_too_large'] as const),
      ],
      handle: async ({ actor, body, newId }) => {
        const { url, name, target_folder_id: targetFolderId } = body;
        const asked = { id: newId, url, name, targetFolderId };
        return created(toFullDocumentDto(await webImport.importFromUrl(actor, asked)));
      },
    }),
  ];
}

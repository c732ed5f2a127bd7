import { z } from 'zod';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { fileAnswer, jsonAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { exportListSchema, exportSchema, requestedExportSchema, toExportDto } from './exports.schema.ts';
import type { ExportsService } from './exports.service.ts';

const params = z.strictObject({ export_id: uuidPathParam('export_not_found') });
/** The download URLs in the response need no sign-in, so no cache may store the response. */
const notCacheable = { 'Cache-Control': 'no-store' };

export function exportsRoutes(exports: ExportsService, cursors: CursorCodec): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/entity/org/exports',
      operationId: 'requestExport',
      tag: 'organization',
      summary: 'Start an export of everything in the organization that you may read',
      access: 'organization:administer',
      idempotent: true,
      responses: { 202: { description: 'The export was started', schema: requestedExportSchema } },
      errors: ['export_running'],
      handle: async ({ actor, newId }) =>
        jsonAnswer(202, { export_id: newId, job_id: await exports.request(actor, newId) }),
    }),
    defineRoute({
      method: 'get',
      path: '/entity/org/exports',
      operationId: 'listExports',
      tag: 'organization',
      summary: 'List the exports of the organization, newest first',
      access: 'organization:administer',
      query: z.strictObject(cursorPaginationQuery),
      responses: { 200: { description: 'A page of exports', schema: exportListSchema } },
      handle: async ({ actor, query: { limit, cursor }, publicUrl }) => {
        const list = { list: 'exports' };
        const { items, last } = await exports.list(actor, { limit, after: cursors.decode(cursor, list) }, publicUrl);
        return okAnswer({ items: items.map(toExportDto), next_cursor: cursors.encode(last, list) }, notCacheable);
      },
    }),
    defineRoute({
      method: 'get',
      path: '/entity/org/exports/:export_id',
      operationId: 'getExport',
      tag: 'organization',
      summary: 'Get an export with its progress and download URLs',
      access: 'organization:administer',
      params,
      responses: { 200: { description: 'The export', schema: exportSchema } },
      errors: ['export_not_found'],
      handle: async ({ actor, params: { export_id }, publicUrl }) =>
        okAnswer(toExportDto(await exports.get(actor, export_id, publicUrl)), notCacheable),
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/org/exports/:export_id',
      operationId: 'deleteExport',
      tag: 'organization',
      summary: 'Delete an export with its archives; a running export is cancelled',
      access: 'organization:administer',
      params,
      responses: { 204: { description: 'The export is deleted' } },
      errors: ['export_not_found'],
      handle: async ({ actor, params: { export_id } }) => {
        await exports.delete(actor, export_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'get',
      path: '/files/exports/:export_token',
      operationId: 'downloadExport',
      tag: 'organization',
      summary: 'Download an archive by its `download_url`, or a part of it with `Range`',
      access: 'public',
      params: z.strictObject({ export_token: z.string() }),
      responses: {
        200: { description: 'The archive', contentType: 'application/zip' },
        206: { description: 'The requested part of the archive', contentType: 'application/zip' },
      },
      errors: [
        'export_not_found',
        'range_not_satisfiable',
        'blob_missing',
        'blob_store_refused',
        'file_url_invalid',
        'file_url_expired',
      ],
      handle: async ({ params: { export_token } }) => fileAnswer(await exports.getSigned(export_token)),
    }),
  ];
}

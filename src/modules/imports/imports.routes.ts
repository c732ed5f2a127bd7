import { z } from 'zod';
import { uuidField } from '#src/http/request/fields.ts';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { jsonAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  importFromConnectorBody,
  importResultsSchema,
  startSyncBody,
  syncRunListSchema,
  syncRunSchema,
  toImportResultDto,
  toRemoteFileQueries,
  toSyncRunDto,
} from './imports.schema.ts';
import type { ImportsService } from './imports.service.ts';
import type { SyncsService } from './syncs.service.ts';

const connectionParams = z.strictObject({ connection_id: uuidField });

export function importsRoutes(
  imports: ImportsService,
  syncs: Pick<SyncsService, 'start' | 'list'>,
  cursors: CursorCodec,
  { importWaitSeconds }: { importWaitSeconds: number },
): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/documents/import-from-connector',
      operationId: 'importDocumentsFromConnector',
      tag: 'documents',
      summary:
        'Import files and folders of a connection as documents; `Prefer: wait` sets how long to wait for results',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: importFromConnectorBody,
      idempotent: true,
      responses: { 200: { description: 'The results so far', schema: importResultsSchema } },
      errors: ['connection_not_found', 'needs_reauth', 'folder_not_found', 'forbidden'],
      waits: true,
      handle: async ({ actor, body, newId, waitSeconds, signal }) => {
        const { connection_id: connectionId, target_folder_id: targetFolderId } = body;
        const wait = { seconds: waitSeconds ?? importWaitSeconds, disconnected: signal };
        const request = { runId: newId, connectionId, targetFolderId, files: toRemoteFileQueries(body) };
        return okAnswer({ results: (await imports.start(actor, request, wait)).map(toImportResultDto) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/connectors/connections/:connection_id/sync',
      operationId: 'syncConnection',
      tag: 'connectors',
      summary: 'Sync a connection now by its `config.sync`, or return the sync in progress',
      access: 'connection:write',
      params: connectionParams,
      body: startSyncBody,
      responses: { 202: { description: 'The sync', schema: syncRunSchema } },
      errors: ['connection_not_found', 'sync_not_configured', 'job_open'],
      handle: async ({ actor, params, body }) =>
        jsonAnswer(202, toSyncRunDto(await syncs.start(actor, params.connection_id, body.accept_deletions))),
    }),
    defineRoute({
      method: 'get',
      path: '/connectors/connections/:connection_id/syncs',
      operationId: 'listSyncs',
      tag: 'connectors',
      summary: 'List the syncs of a connection, newest first',
      access: 'connection:read',
      params: connectionParams,
      query: z.strictObject(cursorPaginationQuery),
      responses: { 200: { description: 'A page of syncs', schema: syncRunListSchema } },
      errors: ['connection_not_found'],
      handle: async ({ actor, params: { connection_id }, query: { limit, cursor } }) => {
        const list = { list: 'syncs', connection_id };
        const page = { limit, after: cursors.decode(cursor, list) };
        const { items, last } = await syncs.list(actor, connection_id, page);
        return okAnswer({ items: items.map(toSyncRunDto), next_cursor: cursors.encode(last, list) });
      },
    }),
  ];
}

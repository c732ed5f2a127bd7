import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import { booleanTextField } from '#src/http/request/fields.ts';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { downloadAnswer, fileAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { logExportFormats, logExportMediaType } from './log-export.ts';
import {
  loggedAgentsSchema,
  loggedChatWithTotalsSchema,
  loggedConversationListSchema,
  loggedRoundSchema,
  loggedRoundsQuery,
  logQuery,
  logStatsQuery,
  logStatsSchema,
  recentChatsQuery,
  recentChatsSchema,
  toLogFilter,
  toLoggedChatWithTotalsDto,
  toLoggedConversationDto,
  toLoggedRoundDto,
  toLogStatsDto,
  toLogStatsFilter,
  toRecentChatDto,
} from './logs.schema.ts';
import type { LogsService } from './logs.service.ts';

const params = z.strictObject({ chat_id: uuidPathParam('chat_not_found') });
const roundParams = params.extend({
  round_index: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'round_not_found')
    .transform(Number),
});

export function logsRoutes(logs: LogsService, cursors: CursorCodec): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/logs/conversations',
      operationId: 'listConversations',
      tag: 'logs',
      summary: 'List the conversations that you may read, newest first',
      access: 'user',
      query: z.strictObject({
        ...cursorPaginationQuery,
        ...logQuery,
        include_total: booleanTextField.default(false).describe('Count all matches.'),
      }),
      responses: { 200: { description: 'A page of conversations', schema: loggedConversationListSchema } },
      handle: async ({ actor, query }) => {
        const filter = toLogFilter(query);
        const list = { list: 'conversations', filter: filterOf(query) };
        const page = {
          limit: query.limit,
          after: cursors.decode(query.cursor, list),
          includeTotal: query.include_total,
        };
        const { items, last, total } = await logs.list(actor, filter, page);
        return okAnswer({ items: items.map(toLoggedConversationDto), next_cursor: cursors.encode(last, list), total });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/logs/stats',
      operationId: 'getLogStats',
      tag: 'logs',
      summary: 'Statistics over the conversations that you may read',
      access: 'user',
      query: z.strictObject(logStatsQuery),
      responses: { 200: { description: 'The statistics', schema: logStatsSchema } },
      handle: async ({ actor, query }) => okAnswer(toLogStatsDto(await logs.stats(actor, toLogStatsFilter(query)))),
    }),
    defineRoute({
      method: 'get',
      path: '/logs/export',
      operationId: 'exportLogs',
      tag: 'logs',
      summary: 'Export the rounds of the conversations that you may read, one line each, with the filters of the list',
      access: 'user',
      query: z.strictObject({
        ...logQuery,
        format: z
          .string()
          .default('csv')
          .meta({ enum: logExportFormats })
          .describe('`csv` or `jsonl`; anything else is 400.'),
      }),
      responses: { 200: { description: 'The rounds', contentType: ['text/csv', 'application/x-ndjson'] } },
      errors: ['unsupported_export_format', 'rate_limited'],
      handle: ({ actorNow, query }) => {
        const format = logExportFormats.find((known) => known === query.format);
        if (format === undefined)
          throw appError('unsupported_export_format', { detail: 'The `format` of a log export must be csv or jsonl.' });
        const content = logs.export(actorNow, toLogFilter(query), format);
        return downloadAnswer({ fileName: `conversations.${format}`, mediaType: logExportMediaType(format), content });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/logs/recent',
      operationId: 'listRecentConversations',
      tag: 'logs',
      summary: 'List the conversations that changed last',
      access: 'user',
      query: z.strictObject(recentChatsQuery),
      responses: { 200: { description: 'Newest change first', schema: recentChatsSchema } },
      handle: async ({ actor, query }) => okAnswer((await logs.recent(actor, query)).map(toRecentChatDto)),
    }),
    defineRoute({
      method: 'get',
      path: '/logs/agents',
      operationId: 'listLoggedAgents',
      tag: 'logs',
      summary: 'List the agents of the conversations that you may read',
      access: 'user',
      responses: { 200: { description: 'By name, including deleted ones', schema: loggedAgentsSchema } },
      handle: async ({ actor }) => okAnswer(await logs.agents(actor)),
    }),
    defineRoute({
      method: 'get',
      path: '/logs/conversations/:chat_id',
      operationId: 'getConversation',
      tag: 'logs',
      summary: 'Get a conversation with its rounds, in order',
      access: 'chat:read',
      params,
      query: z.strictObject(loggedRoundsQuery),
      responses: {
        200: { description: 'The conversation and a page of its rounds', schema: loggedChatWithTotalsSchema },
      },
      errors: ['chat_not_found'],
      handle: async ({ actor, params: { chat_id }, query: { limit, cursor } }) => {
        const list = { list: 'rounds', of: chat_id };
        const after = Number(cursors.decode(cursor, list)?.sortKey ?? 0);
        const { session, rounds } = await logs.session(actor, chat_id, { limit, after });
        const last = rounds.last === null ? null : { sortKey: String(rounds.last), id: chat_id };
        return okAnswer(toLoggedChatWithTotalsDto(session, rounds.items, cursors.encode(last, list)));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/logs/conversations/:chat_id/rounds/:round_index',
      operationId: 'getRound',
      tag: 'logs',
      summary: 'Get a round of a conversation, with its events',
      access: 'chat:read',
      params: roundParams,
      responses: { 200: { description: 'The round', schema: loggedRoundSchema } },
      errors: ['chat_not_found', 'round_not_found'],
      handle: async ({ actor, params: { chat_id, round_index } }) => {
        const { session, round } = await logs.round(actor, chat_id, round_index);
        return okAnswer(toLoggedRoundDto(session, round));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/logs/conversations/:chat_id/trend.svg',
      operationId: 'drawTrend',
      tag: 'logs',
      summary: 'Get the trend of a conversation as a chart',
      access: 'chat:read',
      params,
      responses: {
        200: { description: 'The newest thousand scored rounds', contentType: 'image/svg+xml' },
        206: { description: 'The requested range', contentType: 'image/svg+xml' },
      },
      errors: ['chat_not_found', 'range_not_satisfiable'],
      handle: async ({ actor, params: { chat_id } }) => picture(await logs.trend(actor, chat_id)),
    }),
  ];
}

/** Returns the query parameters that must be the same on each page that a cursor reads: all except those of paging. */
function filterOf({ limit, cursor, include_total, ...filter }: Record<string, unknown>): object {
  return filter;
}

function picture(svg: string) {
  const bytes = Buffer.from(svg);
  return fileAnswer({
    fileName: 'trend.svg',
    mediaType: 'image/svg+xml; charset=utf-8',
    sizeBytes: bytes.length,
    etag: createHash('sha256').update(bytes).digest('hex'),
    isShown: true,
    open: async (range) => Readable.from([range === undefined ? bytes : bytes.subarray(range.start, range.end + 1)]),
  });
}

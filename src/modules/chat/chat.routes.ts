import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import { booleanTextField, uuidField } from '#src/http/request/fields.ts';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import {
  createdAnswer,
  eventStreamAnswer,
  fileAnswer,
  noContentAnswer,
  okAnswer,
  okAnswerWithVersion,
} from '#src/http/response/answers.ts';
import { defineRoute, eventStreamResponse, type HttpRoute } from '#src/http/routing/route.ts';
import type { ServerSentEvent } from '#src/ports/idempotency-store.ts';
import type { NumberedRoundEvent } from './chat.model.ts';
import {
  chatEventSchema,
  chatHistorySchema,
  chatListSchema,
  chatMessageSchema,
  chatSummarySchema,
  renameChatBody,
  sendMessageBody,
  toChatHistoryDto,
  toChatMessageDto,
  toChatSummaryDto,
  toRoundEventPosition,
  toSendMessageInput,
  toStreamEvent,
} from './chat.schema.ts';
import type { ChatService } from './chat.service.ts';
import { chatExportFormats, exportChat } from './chat-export.ts';

const params = z.strictObject({ chat_id: uuidPathParam('chat_not_found') });

const sendErrors = [
  'agent_not_found',
  'version_not_found',
  'chat_not_found',
  'team_not_found',
  'forbidden',
  'account_disabled',
  'agent_deleted',
  'not_ready',
  'round_in_progress',
  'context_too_long',
  'interrupted',
] as const;

/** Error codes of model failures, which `POST /chat/stream` sends in its last event. */
const modelErrors = ['model_unavailable', 'model_rejected', 'model_response_invalid', 'model_not_configured'] as const;

export function chatRoutes(chat: ChatService, cursors: CursorCodec, { basePath }: { basePath: string }): HttpRoute[] {
  const serialized = new WeakMap<NumberedRoundEvent, ServerSentEvent>();
  const toSharedEvent = (round: number, event: NumberedRoundEvent): ServerSentEvent => {
    const known = serialized.get(event) ?? toStreamEvent(round, event);
    serialized.set(event, known);
    return known;
  };

  return [
    defineRoute({
      method: 'post',
      path: '/chat',
      operationId: 'sendMessage',
      tag: 'chat',
      summary: 'Send a message and wait for the whole answer',
      access: 'user',
      limits: [{ limit: 'chat', by: 'user' }],
      body: sendMessageBody,
      idempotent: true,
      responses: {
        200: { description: 'The answer in an existing chat', schema: chatMessageSchema },
        201: { description: 'The answer in a new chat', schema: chatMessageSchema },
      },
      errors: [...sendErrors, ...modelErrors],
      handle: async ({ actor, body, idempotencyKey }) => {
        const run = await chat.send(actor, toSendMessageInput(body, idempotencyKey));
        const dto = toChatMessageDto(await run.answer);
        return run.isNewChat ? createdAnswer(dto) : okAnswer(dto);
      },
    }),
    defineRoute({
      method: 'post',
      path: '/chat/stream',
      operationId: 'streamMessage',
      tag: 'chat',
      summary: 'Send a message and read the answer as it is written: `token` events, then `done` or `error`',
      access: 'user',
      limits: [{ limit: 'chat', by: 'user' }],
      body: sendMessageBody,
      idempotent: true,
      responses: { 200: eventStreamResponse(chatEventSchema) },
      errors: sendErrors,
      handle: async ({ actor, body, idempotencyKey }) => {
        const run = await chat.send(actor, toSendMessageInput(body, idempotencyKey));
        run.answer.catch(() => undefined);
        const headers = { 'Content-Location': `${basePath}/chat/${run.chatId}/stream` };
        return eventStreamAnswer(
          async (sink) => {
            run.readBy(sink.closed);
            // Reads all events even after a disconnect, because the whole response is stored for its Idempotency-Key.
            for await (const event of run.events()) await sink.send(toStreamEvent(run.round, event));
          },
          { headers },
        );
      },
    }),
    defineRoute({
      method: 'get',
      path: '/chat/:chat_id/stream',
      operationId: 'replayStream',
      tag: 'chat',
      summary: 'Replay the events of the newest answer, or those after `Last-Event-ID`',
      access: 'chat:read',
      params,
      resumable: true,
      responses: {
        200: eventStreamResponse(chatEventSchema),
        204: { description: 'There are no more events' },
      },
      errors: ['chat_not_found', 'malformed_request'],
      handle: async ({ actor, actorNow, params: { chat_id }, lastEventId }) => {
        const replayed = await chat.replay(actor, chat_id, toRoundEventPosition(lastEventId));
        if (replayed === null) return noContentAnswer();
        const { round, events } = replayed;
        return eventStreamAnswer(
          async (sink) => {
            for await (const event of events(sink.closed, actorNow)) await sink.send(toSharedEvent(round, event));
          },
          { isWatch: true },
        );
      },
    }),
    defineRoute({
      method: 'get',
      path: '/chat',
      operationId: 'listChats',
      tag: 'chat',
      summary: 'The chats that you can read, newest change first',
      access: 'user',
      query: z.strictObject({
        ...cursorPaginationQuery,
        agent_id: uuidField.optional().describe('An agent, or a draft for the chats with its versions.'),
        mine: booleanTextField.default(false).describe('Only those that you started.'),
      }),
      responses: { 200: { description: 'A page of chats', schema: chatListSchema } },
      handle: async ({ actor, query }) => {
        const filter = { agentId: query.agent_id, mine: query.mine };
        const list = { list: 'chats', filter };
        const page = { limit: query.limit, after: cursors.decode(query.cursor, list) };
        const { items, last, total } = await chat.list(actor, filter, page);
        return okAnswer({ items: items.map(toChatSummaryDto), next_cursor: cursors.encode(last, list), total });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/chat/:chat_id',
      operationId: 'getChat',
      tag: 'chat',
      summary: 'The messages of a chat, in order',
      access: 'chat:read',
      params,
      responses: { 200: { description: 'The chat', schema: chatHistorySchema } },
      errors: ['chat_not_found'],
      handle: async ({ actor, params: { chat_id } }) => {
        const history = await chat.history(actor, chat_id);
        return okAnswerWithVersion(toChatHistoryDto(history), history.chat);
      },
    }),
    defineRoute({
      method: 'get',
      path: '/chat/:chat_id/export',
      operationId: 'exportChat',
      tag: 'chat',
      summary: 'Export a chat as a file',
      access: 'chat:read',
      params,
      query: z.strictObject({
        format: z
          .string()
          .default('markdown')
          .meta({ enum: chatExportFormats })
          .describe('`markdown` or `json`; anything else is 400.'),
      }),
      responses: {
        200: { description: 'The chat', contentType: ['text/markdown', 'application/json'] },
        206: { description: 'The part that was asked for', contentType: ['text/markdown', 'application/json'] },
      },
      errors: ['chat_not_found', 'unsupported_export_format', 'range_not_satisfiable'],
      handle: async ({ actor, params: { chat_id }, query }) => {
        const format = chatExportFormats.find((known) => known === query.format);
        if (format === undefined)
          throw appError('unsupported_export_format', {
            detail: 'The `format` of a chat export must be markdown or json.',
          });
        const { text, ...described } = exportChat(await chat.history(actor, chat_id), format);
        return textFile({ ...described, text });
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/chat/:chat_id',
      operationId: 'renameChat',
      tag: 'chat',
      summary: 'Rename a chat that you started',
      access: 'chat:write',
      takesIfMatch: true,
      params,
      body: renameChatBody,
      responses: { 200: { description: 'The chat as lists show it', schema: chatSummarySchema } },
      errors: ['chat_not_found', 'forbidden'],
      handle: async ({ actor, params: { chat_id }, body, expectedVersions }) =>
        okAnswer(toChatSummaryDto(await chat.rename(actor, chat_id, body.title, expectedVersions))),
    }),
    defineRoute({
      method: 'delete',
      path: '/chat/:chat_id',
      operationId: 'deleteChat',
      tag: 'chat',
      summary: 'Delete a chat that you started, with all its messages',
      access: 'chat:write',
      params,
      responses: { 204: { description: 'The chat is deleted' } },
      errors: ['chat_not_found', 'forbidden'],
      handle: async ({ actor, params: { chat_id } }) => {
        await chat.remove(actor, chat_id);
        return noContentAnswer();
      },
    }),
  ];
}

function textFile({ text, ...described }: { text: string; fileName: string; mediaType: string }) {
  const bytes = Buffer.from(text);
  return fileAnswer({
    ...described,
    sizeBytes: bytes.length,
    etag: createHash('sha256').update(bytes).digest('hex'),
    open: async (range) => Readable.from([range === undefined ? bytes : bytes.subarray(range.start, range.end + 1)]),
  });
}

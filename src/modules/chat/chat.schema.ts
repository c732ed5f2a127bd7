import { z } from 'zod';
import { alignmentWorkflowId, jobIdOfWorkflowPart } from '#src/contracts/workflow-ids.ts';
import { isBlank, isStorableInPostgres } from '#src/domain/text/plain-text.ts';
import { appError } from '#src/errors.ts';
import { nameField, notBlankPattern, uuidField, visibilityField } from '#src/http/request/fields.ts';
import {
  alignmentEventSchema,
  echoStateField,
  rerankerTypeField,
  toolCallSchema,
  toToolCallDto,
} from '#src/http/shared-schemas.ts';
import type { ServerSentEvent } from '#src/ports/idempotency-store.ts';
import {
  type ChatAnswer,
  type ChatHistory,
  type ChatSummary,
  type Citation,
  type Echo,
  echoOfChat,
  type NumberedRoundEvent,
} from './chat.model.ts';
import type { RoundEventPosition, SendMessageInput } from './rounds.ts';

const ids = z.array(uuidField).max(1_000).optional();

const shared = { anyOf: [{ required: ['visibility'] }, { required: ['team_ids'] }] };

export const sendMessageBody = z
  .strictObject({
    message: z
      .string()
      .min(1)
      .max(100_000)
      .refine(isStorableInPostgres, 'must not hold NUL characters')
      .refine((text) => !isBlank(text), 'must not be blank')
      .meta({ pattern: notBlankPattern }),
    chat_id: uuidField.optional().describe('Omit to start a chat.'),
    agent_id: uuidField.optional().describe('Required to start a chat with an agent.'),
    draft_version_id: uuidField
      .optional()
      .describe('To start a chat with a version of your own draft, in place of `agent_id`. Such a chat is personal.'),
    visibility: visibilityField.optional(),
    team_ids: z.array(uuidField).max(100).optional(),
    enable_rag: z.boolean().default(true),
    include_document_ids: ids.describe('Search only these documents; an empty list restricts nothing.'),
    exclude_document_ids: ids.describe('Search all documents except these; an empty list restricts nothing.'),
    reranking: z.boolean().optional().describe('If omitted, the settings of the documents apply.'),
    reranking_type: rerankerTypeField.optional(),
  })
  .superRefine((body, context) => {
    const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (body.include_document_ids !== undefined && body.exclude_document_ids !== undefined) {
      refuse('exclude_document_ids', 'cannot be sent together with include_document_ids');
    }
    const isWithDraft = body.draft_version_id !== undefined;
    if (isWithDraft && body.agent_id !== undefined) refuse('draft_version_id', 'cannot be sent together with agent_id');
    if (body.chat_id === undefined && body.agent_id === undefined && !isWithDraft) {
      refuse('agent_id', 'or draft_version_id is required to start a chat');
    }
    if (body.chat_id === undefined && !isWithDraft) return;
    const reason = body.chat_id === undefined ? 'is for chats with agents only' : 'is for new chats only';
    if (body.visibility !== undefined) refuse('visibility', reason);
    if (body.team_ids !== undefined) refuse('team_ids', reason);
  })
  .meta({
    oneOf: [
      { required: ['chat_id'], not: shared },
      { required: ['agent_id'], not: { required: ['chat_id'] } },
      { required: ['draft_version_id'], not: { anyOf: [{ required: ['chat_id'] }, ...shared.anyOf] } },
    ],
    not: {
      anyOf: [
        { required: ['include_document_ids', 'exclude_document_ids'] },
        { required: ['agent_id', 'draft_version_id'] },
      ],
    },
  });

export const renameChatBody = z.strictObject({ title: nameField });

const citations = z
  .array(
    z
      .strictObject({
        chunk_id: uuidField,
        document_id: uuidField,
        document_name: z.string().nullable(),
        page_number: z.int().nullable().describe('Page of the quote, from 1.'),
        content_offset: z
          .int()
          .nullable()
          .describe('Offset of the quote in the text of the document (UTF-16 code units).'),
        heading: z.string().nullable().describe('The heading above the quote; null if there is none.'),
        quote: z.string().nullable().describe('The sentence or line of the document that supports the statement best.'),
      })
      .meta({ id: 'Citation' }),
  )
  .describe('`[k]` in the text refers to the k-th of these.');

const toolCalls = z.array(toolCallSchema).describe('The tool calls of the model for this answer, in order.');

const echo = z
  .strictObject({
    state: echoStateField,
    ewma: z.number(),
    alignment_score: z.number(),
    round: z.int().describe('The round that this state describes: the newest scored one, or 0 before the first.'),
    scoring_pending: z.boolean().describe('The newest answer is not scored yet, so the state is older than it.'),
    events: z.array(alignmentEventSchema),
  })
  .meta({ id: 'Echo' });

export const chatMessageSchema = z
  .strictObject({
    chat_id: uuidField,
    reply: z.string(),
    model: z.string(),
    echo,
    title: z.string(),
    postprocess_job_id: z.string().describe('The job that scores the round; empty in a chat with a draft version.'),
    citations,
    tool_calls: toolCalls,
  })
  .meta({ id: 'ChatMessageResponse' });

const partnerFields = {
  agent_id: uuidField.describe('The agent; in a chat with a draft version, the draft.'),
  draft_version_id: uuidField.nullable().describe('Null in a chat with an agent.'),
};

export const chatSummarySchema = z
  .strictObject({
    id: uuidField,
    ...partnerFields,
    title: z.string(),
    round: z.int(),
    echo_state: echoStateField,
    ewma: z.number(),
    echo_scoring_pending: z.boolean(),
    input_tokens: z.int().describe('Total of all rounds.'),
    completion_tokens: z.int().describe('Total of all rounds.'),
    latency_ms: z.int().describe('Latency of the newest answer.'),
    rag_enabled: z.boolean(),
    rag_reranking: z.boolean().describe('Requested by the newest message.'),
    rag_reranking_type: rerankerTypeField,
    rag_include_document_ids: z.array(uuidField).nullable(),
    rag_exclude_document_ids: z.array(uuidField).nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'ChatSummary' });

export const chatListSchema = z.strictObject({
  items: z.array(chatSummarySchema),
  next_cursor: z.string().nullable(),
  total: z.int(),
});

const streamErrorFields = { detail: z.string(), code: z.string().exactOptional() };

/** Events of `POST /chat/stream` and its replay. */
export const chatEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('token'), t: z.string() }).meta({ id: 'ChatTokenEvent' }),
    z.strictObject({ type: z.literal('done'), ...chatMessageSchema.shape }).meta({ id: 'ChatDoneEvent' }),
    z.strictObject({ type: z.literal('error'), ...streamErrorFields }).meta({ id: 'ChatErrorEvent' }),
  ])
  .meta({ id: 'ChatEvent' });

export const chatHistorySchema = z
  .strictObject({
    chat_id: uuidField,
    ...partnerFields,
    title: z.string(),
    messages: z.array(
      z
        .strictObject({
          role: z.enum(['system', 'user', 'assistant']),
          content: z.string(),
          pruned: z.boolean().describe('The model does not get this message any more.'),
          citations,
          tool_calls: toolCalls.exactOptional().describe('Only in messages of the assistant.'),
        })
        .meta({ id: 'Message' }),
    ),
    echo: echo.describe('The state of the chat, with the events of the round that it describes.'),
    echo_scoring_pending: z.boolean(),
    agent_deleted: z.boolean(),
  })
  .meta({ id: 'ChatHistory' });

export function toSendMessageInput(
  body: z.output<typeof sendMessageBody>,
  idempotencyKey: string | null,
): SendMessageInput {
  return {
    text: body.message,
    chatId: body.chat_id ?? null,
    agentId: body.agent_id ?? null,
    draftVersionId: body.draft_version_id ?? null,
    visibility: body.visibility ?? null,
    teamIds: body.team_ids ?? [],
    ragEnabled: body.enable_rag,
    ragReranking: body.reranking ?? null,
    ragRerankingType: body.reranking_type ?? null,
    ragIncludeDocumentIds: orNull(body.include_document_ids),
    ragExcludeDocumentIds: orNull(body.exclude_document_ids),
    idempotencyKey,
  };
}

function orNull(list: string[] | undefined): string[] | null {
  return list === undefined || list.length === 0 ? null : [...new Set(list)];
}

const toCitationDto = (citation: Citation) => ({
  chunk_id: citation.chunkId,
  document_id: citation.documentId,
  document_name: citation.documentName ?? null,
  page_number: citation.pageNumber ?? null,
  content_offset: citation.contentOffset ?? null,
  heading: citation.heading ?? null,
  quote: citation.quote ?? null,
});

/** What an answer is based on. */
export const toSourcesDto = ({ citations, toolCalls }: Pick<ChatAnswer, 'citations' | 'toolCalls'>) => ({
  citations: citations.map(toCitationDto),
  tool_calls: toolCalls.map(toToolCallDto),
});

function toEchoDto({ state, ewma, alignmentScore, round, events }: Echo, isPending: boolean): z.input<typeof echo> {
  return { state, ewma, alignment_score: alignmentScore, round, scoring_pending: isPending, events };
}

export function toChatMessageDto(answer: ChatAnswer): z.input<typeof chatMessageSchema> {
  return {
    chat_id: answer.chatId,
    reply: answer.reply,
    model: answer.model,
    // Rounds are scored in their order.
    echo: toEchoDto(answer.echo, !answer.isDraft && answer.echo.round < answer.round),
    title: answer.title,
    postprocess_job_id: answer.isDraft ? '' : jobIdOfWorkflowPart(alignmentWorkflowId(answer.chatId), answer.round),
    ...toSourcesDto(answer),
  };
}

/**
 * Serializes an event for Server-Sent Events. A client that reconnects sends the event's `id` in the header
 * `Last-Event-ID`.
 */
export function toStreamEvent(round: number, event: NumberedRoundEvent): ServerSentEvent {
  const id = `${round}:${event.seq}`;
  switch (event.event) {
    case 'token':
      return { id, event: 'token', data: { t: event.text } };
    case 'done':
      return { id, event: 'done', data: toChatMessageDto(event.answer) };
    case 'error':
      return { id, event: 'error', data: { detail: event.detail, code: event.code } };
  }
}

/** Parses a `Last-Event-ID`. Throws `malformed_request` if it is not `<round>:<seq>`. */
export function toRoundEventPosition(lastEventId: string | null): RoundEventPosition | null {
  if (lastEventId === null) return null;
  const [, round, seq] = /^([1-9]\d{0,8}):(\d{1,15})$/.exec(lastEventId) ?? [];
  if (round === undefined || seq === undefined) {
    throw appError('malformed_request', {
      detail: '`Last-Event-ID` must be the id of an event of this chat, such as 3:12.',
    });
  }
  return { round: Number(round), seq: Number(seq) };
}

export function toChatSummaryDto(chat: ChatSummary): z.input<typeof chatSummarySchema> {
  return {
    id: chat.id,
    agent_id: chat.agentId,
    draft_version_id: chat.draftVersionId,
    title: chat.title,
    round: chat.roundCount,
    echo_state: chat.echoState,
    ewma: chat.ewma,
    echo_scoring_pending: chat.scoringPending,
    input_tokens: chat.inputTokens,
    completion_tokens: chat.completionTokens,
    latency_ms: chat.latencyMs,
    rag_enabled: chat.ragEnabled,
    rag_reranking: chat.ragReranking ?? false,
    rag_reranking_type: chat.ragRerankingType ?? 'cross_encoder',
    rag_include_document_ids: chat.ragIncludeDocumentIds,
    rag_exclude_document_ids: chat.ragExcludeDocumentIds,
    created_at: chat.createdAt.toISOString(),
    updated_at: chat.updatedAt.toISOString(),
  };
}

export function toChatHistoryDto({ chat, rounds, isAgentDeleted }: ChatHistory): z.input<typeof chatHistorySchema> {
  return {
    chat_id: chat.id,
    agent_id: chat.agentId,
    draft_version_id: chat.draftVersionId,
    title: chat.title,
    messages: rounds.flatMap((round) => {
      const { pruned } = round;
      const question = { role: 'user' as const, content: round.userContent, pruned, citations: [] };
      if (round.assistantReply === null) return [question];
      return [question, { role: 'assistant' as const, content: round.assistantReply, pruned, ...toSourcesDto(round) }];
    }),
    echo: toEchoDto(echoOfChat(chat, rounds), chat.scoringPending),
    echo_scoring_pending: chat.scoringPending,
    agent_deleted: isAgentDeleted,
  };
}

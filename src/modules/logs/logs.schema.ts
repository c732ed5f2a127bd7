import { z } from 'zod';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { booleanTextField, integerField, uuidField } from '#src/http/request/fields.ts';
import { alignmentEventSchema, echoStateField, toolCallSchema, toToolCallDto } from '#src/http/shared-schemas.ts';
import {
  countScoredRounds,
  describeLoggedChat,
  isScoringOfRoundPending,
  type LogFilter,
  type LoggedChat,
  type LoggedChatWithTotals,
  type LoggedRound,
  type LoggedRoundDetail,
  type LogStats,
  type LogStatsFilter,
  logTypeOfRound,
  meanOrNull,
  type RecentChat,
  topicStreakOfRound,
} from './logs.model.ts';

const moment = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })])
  .refine(
    // Accepts only years that both Postgres and JavaScript's Date support.
    (text) => Number(text.slice(0, 4)) >= 1 && Number.isFinite(momentOf(text).getTime()),
    'must be a date or a time of the years 1 to 9999',
  )
  .meta({ pattern: '^(?!0000)' });

const dateQuery = {
  date_from: moment
    .optional()
    .describe('Chats that started at this time or later. A date means its beginning, in UTC.'),
  date_to: moment
    .optional()
    .describe('Chats that started at this time or earlier. A date includes the whole day, in UTC.'),
};

export const logStatsQuery = { agent_id: uuidField.optional(), ...dateQuery };

export const logQuery = {
  ...logStatsQuery,
  state: echoStateField.optional().describe('Current state of the chat.'),
  q: z
    .string()
    .max(200)
    .optional()
    .describe('All words occur in the title, or in the message and reply of one round. The last word may be a prefix.'),
};

export const loggedRoundsQuery = {
  limit: integerField({ min: 1, max: 500 }).default(20),
  cursor: z.string().min(1).max(1_000).optional(),
};

export const recentChatsQuery = {
  limit: integerField({ min: 1, max: 31 }).default(31),
  mine: booleanTextField.default(false).describe('Only chats that you started.'),
};

const mean = z.number().nullable();

const isDraftField = z.boolean().describe('A chat with a draft version, which is in no statistics.');

const conversationSchema = z
  .strictObject({
    id: uuidField,
    title: z.string(),
    description: z.string().describe('The beginning of the first message, on one line.'),
    agent_id: uuidField.describe('The agent; in a chat with a draft version, the draft.'),
    agent: z.string(),
    is_draft: isDraftField,
    total_rounds: z.int(),
    avg_ewma: mean.describe('Over its scored rounds; null without any.'),
    started_at: z.iso.datetime(),
  })
  .meta({ id: 'LoggedConversation' });

export const loggedConversationListSchema = z.strictObject({
  items: z.array(conversationSchema),
  next_cursor: z.string().nullable(),
  total: z.int().nullable().describe('Null unless `include_total` is true.'),
});

export const logStatsSchema = z
  .strictObject({
    total_chats: z.int(),
    total_rounds: z.int(),
    avg_ewma: mean.describe('Over all scored rounds; null without any.'),
    total_input_tokens: z.int(),
    total_completion_tokens: z.int(),
    total_tokens: z.int(),
    total_cost_usd: z.number(),
    avg_latency_ms: mean.describe('Over all rounds with an answer; null without any.'),
    drift_rounds: z.int(),
    stable_rounds: z.int().describe('Rounds in `stable` or `watch`.'),
    watch_rounds: z.int().describe('Those of the stable rounds that are in `watch`.'),
    refusal_rounds: z.int(),
    drift_rate: z.number().describe('Share of scored rounds in drift; 0 without any.'),
  })
  .meta({ id: 'LogStats' });

const session = z.strictObject({
  run_id: z
    .string()
    .describe('The workflow that scores the chat; also its id under `/jobs`. Empty in a chat with a draft version.'),
  agent: z.string(),
  is_draft: isDraftField,
  model: z.string().describe('Model of the newest round.'),
  started_at: z.iso.datetime(),
  summary: z.strictObject({
    total_rounds: z.int(),
    avg_ewma: mean,
    stable_rounds: z.int().describe('Rounds in `stable` or `watch`.'),
    watch_rounds: z.int().describe('Those of the stable rounds that are in `watch`.'),
    drift_rounds: z.int(),
    refusal_rounds: z.int(),
  }),
});

const state = echoStateField.nullable().describe('Null until the round is scored, like its scores.');

export const loggedChatWithTotalsSchema = z
  .strictObject({
    session,
    round_summaries: z.array(
      z.strictObject({
        round: z.int(),
        type: z.enum(['exchange', 'refusal', 'error']),
        user_content: z.string(),
        assistant_reply: z.string().nullable().describe('Null without an answer.'),
        scoring_pending: z.boolean(),
        state,
        ewma: z.number().nullable(),
        latency_ms: z.int().nullable(),
      }),
    ),
    next_cursor: z.string().nullable(),
    avg_latency_ms: mean,
    chat_title: z.string(),
    chat_description: z.string(),
  })
  .meta({ id: 'LoggedSession' });

export const loggedRoundSchema = z
  .strictObject({
    chat_id: uuidField,
    round_index: z.int(),
    session,
    round: z.strictObject({
      round: z.int(),
      state,
      ewma: z.number().nullable(),
      alignment_score: z.number().nullable(),
      input_tokens: z.int(),
      completion_tokens: z.int(),
      latency_ms: z.int().nullable(),
      user_on_or_off_topic_streak: z.int().nullable().describe('Consecutive on- or off-topic messages up to this one.'),
      events: z.array(alignmentEventSchema),
      tool_calls: z.array(toolCallSchema).describe('The tool calls of the model for the answer, in order.'),
    }),
    scoring_pending: z.boolean(),
  })
  .meta({ id: 'LoggedRound' });

export const recentChatsSchema = z.array(
  z.strictObject({ id: uuidField, title: z.string(), updated_at: z.iso.datetime() }),
);

export const loggedAgentsSchema = z.array(z.strictObject({ id: uuidField, name: z.string() }));

type StatsQuery = z.output<z.ZodObject<typeof logStatsQuery>>;
type LogQuery = z.output<z.ZodObject<typeof logQuery>>;

export function toLogStatsFilter({ agent_id, date_from, date_to }: StatsQuery): LogStatsFilter {
  const from = date_from === undefined ? null : momentOf(date_from);
  return { agentId: agent_id, period: { from, until: date_to === undefined ? null : endOf(date_to) } };
}

/** An empty `q` counts as missing, because forms send empty fields. */
export function toLogFilter(query: LogQuery): LogFilter {
  return { ...toLogStatsFilter(query), state: query.state, words: query.q || undefined };
}

function momentOf(text: string): Date {
  const isWhole = /^\d{4}-\d\d-\d\d$|(Z|[+-]\d\d:?\d\d)$/i.test(text);
  return new Date(isWhole ? text : `${text}Z`);
}

/** Returns the exclusive end of a period: the end of the day `date_to`, or a millisecond after it if it is a time. */
function endOf(text: string): Date {
  const end = momentOf(text).getTime() + (text.length === '2026-01-01'.length ? 86_400_000 : 1);
  return new Date(Math.min(end, Date.parse('9999-12-31T23:59:59Z')));
}

export function toLoggedConversationDto(chat: LoggedChat): z.input<typeof conversationSchema> {
  return {
    id: chat.id,
    title: chat.title,
    description: describeLoggedChat(chat),
    agent_id: chat.agentId,
    agent: chat.agentName,
    is_draft: chat.isDraft,
    total_rounds: chat.rounds,
    avg_ewma: meanOrNull(chat.ewmaSum, countScoredRounds(chat)),
    started_at: chat.startedAt.toISOString(),
  };
}

export function toLogStatsDto(stats: LogStats): z.input<typeof logStatsSchema> {
  const scored = countScoredRounds(stats);
  return {
    total_chats: Object.values(stats.chats).reduce((sum, count) => sum + count),
    total_rounds: stats.rounds,
    avg_ewma: meanOrNull(stats.ewmaSum, scored),
    total_input_tokens: stats.inputTokens,
    total_completion_tokens: stats.completionTokens,
    total_tokens: stats.inputTokens + stats.completionTokens,
    total_cost_usd: stats.costUsd,
    avg_latency_ms: meanOrNull(stats.latencyMs, stats.completedRounds),
    drift_rounds: stats.driftRounds,
    stable_rounds: stats.stableRounds,
    watch_rounds: stats.watchRounds,
    refusal_rounds: stats.refusalRounds,
    drift_rate: meanOrNull(stats.driftRounds, scored) ?? 0,
  };
}

function toSessionPart(of: LoggedChatWithTotals): z.input<typeof session> {
  return {
    run_id: of.isDraft ? '' : alignmentWorkflowId(of.id),
    agent: of.agentName,
    is_draft: of.isDraft,
    model: of.model,
    started_at: of.startedAt.toISOString(),
    summary: {
      total_rounds: of.rounds,
      avg_ewma: meanOrNull(of.ewmaSum, countScoredRounds(of)),
      stable_rounds: of.stableRounds,
      watch_rounds: of.watchRounds,
      drift_rounds: of.driftRounds,
      refusal_rounds: of.refusalRounds,
    },
  };
}

export function toLoggedChatWithTotalsDto(
  of: LoggedChatWithTotals,
  rounds: readonly LoggedRound[],
  nextCursor: string | null,
): z.input<typeof loggedChatWithTotalsSchema> {
  return {
    session: toSessionPart(of),
    round_summaries: rounds.map((round) => ({
      round: round.round,
      type: logTypeOfRound(round),
      user_content: round.userContent,
      assistant_reply: round.assistantReply,
      scoring_pending: isScoringOfRoundPending(of, round),
      state: round.echoState,
      ewma: round.ewma,
      latency_ms: round.latencyMs,
    })),
    next_cursor: nextCursor,
    avg_latency_ms: meanOrNull(of.latencyMs, of.completedRounds),
    chat_title: of.title,
    chat_description: describeLoggedChat(of),
  };
}

export function toLoggedRoundDto(
  of: LoggedChatWithTotals,
  round: LoggedRoundDetail,
): z.input<typeof loggedRoundSchema> {
  return {
    chat_id: of.id,
    round_index: round.round,
    session: toSessionPart(of),
    round: {
      round: round.round,
      state: round.echoState,
      ewma: round.ewma,
      alignment_score: round.alignmentScore,
      input_tokens: round.inputTokens,
      completion_tokens: round.completionTokens,
      latency_ms: round.latencyMs,
      user_on_or_off_topic_streak: topicStreakOfRound(round),
      events: [...round.answerEvents, ...round.events],
      tool_calls: round.toolCalls.map(toToolCallDto),
    },
    scoring_pending: isScoringOfRoundPending(of, round),
  };
}

export function toRecentChatDto({ id, title, updatedAt }: RecentChat): z.input<typeof recentChatsSchema>[number] {
  return { id, title, updated_at: updatedAt.toISOString() };
}

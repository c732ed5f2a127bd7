import { z } from 'zod';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { idField, integerField, textSwitchField } from '#src/http/request/fields.ts';
import {
  describeChat,
  echoStates,
  isPending,
  type LogFilter,
  type LoggedChat,
  type LoggedRound,
  type LogSums,
  meanOf,
  type RecentChat,
  type Session,
  type SumsFilter,
  scoredRounds,
  streakOf,
  typeOf,
} from './logs.model.ts';

const moment = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })])
  .refine(
    // What Postgres and Date have in common.
    (text) => Number(text.slice(0, 4)) >= 1 && Number.isFinite(momentOf(text).getTime()),
    'must be a date or a time of the years 1 to 9999',
  )
  .meta({ pattern: '^(?!0000)' });

const dateQuery = {
  date_from: moment.optional().describe('Chats that began then or later; a date is its beginning, in UTC.'),
  date_to: moment.optional().describe('Chats that began then or earlier; a date is all of that day, in UTC.'),
};

export const sumsQuery = { agent_id: idField.optional(), ...dateQuery };

export const logQuery = {
  ...sumsQuery,
  state: z.enum(echoStates).optional().describe('The state that the chat is in now.'),
  q: z
    .string()
    .max(200)
    .optional()
    .describe('Its words stand in the title, or in one round: its message and its reply. The last may be a beginning.'),
};

export const roundsQuery = {
  limit: integerField({ min: 1, max: 500 }).default(20),
  cursor: z.string().min(1).max(1_000).optional(),
};

export const recentQuery = {
  limit: integerField({ min: 1, max: 31 }).default(31),
  mine: textSwitchField.default(false).describe('Only those that you started.'),
};

const mean = z.number().nullable();

export const conversationSchema = z
  .strictObject({
    id: idField,
    title: z.string(),
    description: z.string().describe('The beginning of its first message, on one line.'),
    agent_id: idField,
    agent: z.string(),
    total_rounds: z.int(),
    avg_ewma: mean.describe('Over its scored rounds; null before any.'),
    started_at: z.iso.datetime(),
  })
  .meta({ id: 'LoggedConversation' });

export const conversationListSchema = z.strictObject({
  items: z.array(conversationSchema),
  next_cursor: z.string().nullable(),
  total: z.int().nullable().describe('Null unless `include_total` is true.'),
});

export const statsSchema = z
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
    stable_rounds: z.int(),
    refusal_rounds: z.int(),
    drift_rate: mean.describe('Of all scored rounds those in drift; null without any.'),
  })
  .meta({ id: 'LogStats' });

const session = z.strictObject({
  run_id: z.string().describe('The run that scores the chat; also its id under `/jobs`.'),
  agent: z.string(),
  model: z.string().describe('Of the newest round.'),
  started_at: z.iso.datetime(),
  summary: z.strictObject({
    total_rounds: z.int(),
    avg_ewma: mean,
    stable_rounds: z.int(),
    drift_rounds: z.int(),
    refusal_rounds: z.int(),
  }),
});

const state = z.enum(echoStates).nullable().describe('Null until the round is scored, like its scores.');

export const sessionSchema = z
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

export const roundSchema = z
  .strictObject({
    chat_id: idField,
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
      user_on_or_off_topic_streak: z
        .int()
        .nullable()
        .describe('How many messages in a row were on the topic, or off it, up to this one.'),
      events: z.array(
        z.strictObject({
          type: z.string(),
          round: z.int(),
          at: z.iso.datetime(),
          data: z.record(z.string(), z.unknown()),
        }),
      ),
    }),
    scoring_pending: z.boolean(),
  })
  .meta({ id: 'LoggedRound' });

export const recentSchema = z.array(z.strictObject({ id: idField, title: z.string(), updated_at: z.iso.datetime() }));

export const agentsSchema = z.array(z.strictObject({ id: idField, name: z.string() }));

type SumsQuery = z.output<z.ZodObject<typeof sumsQuery>>;
type LogQuery = z.output<z.ZodObject<typeof logQuery>>;

export function toSumsFilter({ agent_id, date_from, date_to }: SumsQuery): SumsFilter {
  const from = date_from === undefined ? null : momentOf(date_from);
  return { agentId: agent_id, period: { from, until: date_to === undefined ? null : endOf(date_to) } };
}

/** An empty `q` is none: so a form sends it. */
export function toLogFilter(query: LogQuery): LogFilter {
  return { ...toSumsFilter(query), state: query.state, words: query.q || undefined };
}

/** Without an offset it is UTC. */
function momentOf(text: string): Date {
  const isWhole = /^\d{4}-\d\d-\d\d$|(Z|[+-]\d\d:?\d\d)$/i.test(text);
  return new Date(isWhole ? text : `${text}Z`);
}

/** The moment after a day, or after a millisecond: both ends of a period belong to it. */
function endOf(text: string): Date {
  const end = momentOf(text).getTime() + (text.length === '2026-01-01'.length ? 86_400_000 : 1);
  return new Date(Math.min(end, Date.parse('9999-12-31T23:59:59Z')));
}

export function toConversationDto(chat: LoggedChat): z.input<typeof conversationSchema> {
  return {
    id: chat.id,
    title: chat.title,
    description: describeChat(chat),
    agent_id: chat.agentId,
    agent: chat.agentName,
    total_rounds: chat.rounds,
    avg_ewma: meanOf(chat.ewmaSum, scoredRounds(chat)),
    started_at: chat.startedAt.toISOString(),
  };
}

export function toStatsDto(sums: LogSums): z.input<typeof statsSchema> {
  const scored = scoredRounds(sums);
  return {
    total_chats: Object.values(sums.chats).reduce((sum, count) => sum + count),
    total_rounds: sums.rounds,
    avg_ewma: meanOf(sums.ewmaSum, scored),
    total_input_tokens: sums.inputTokens,
    total_completion_tokens: sums.completionTokens,
    total_tokens: sums.inputTokens + sums.completionTokens,
    total_cost_usd: sums.costUsd,
    avg_latency_ms: meanOf(sums.latencyMs, sums.completedRounds),
    drift_rounds: sums.driftRounds,
    stable_rounds: sums.stableRounds,
    refusal_rounds: sums.refusalRounds,
    drift_rate: meanOf(sums.driftRounds, scored),
  };
}

function toSessionPart(of: Session): z.input<typeof session> {
  return {
    run_id: alignmentWorkflowId(of.id),
    agent: of.agentName,
    model: of.model,
    started_at: of.startedAt.toISOString(),
    summary: {
      total_rounds: of.rounds,
      avg_ewma: meanOf(of.ewmaSum, scoredRounds(of)),
      stable_rounds: of.stableRounds,
      drift_rounds: of.driftRounds,
      refusal_rounds: of.refusalRounds,
    },
  };
}

export function toSessionDto(
  of: Session,
  rounds: readonly LoggedRound[],
  nextCursor: string | null,
): z.input<typeof sessionSchema> {
  return {
    session: toSessionPart(of),
    round_summaries: rounds.map((round) => ({
      round: round.round,
      type: typeOf(round),
      user_content: round.userContent,
      assistant_reply: round.assistantReply,
      scoring_pending: isPending(round),
      state: round.echoState,
      ewma: round.ewma,
      latency_ms: round.latencyMs,
    })),
    next_cursor: nextCursor,
    avg_latency_ms: meanOf(of.latencyMs, of.completedRounds),
    chat_title: of.title,
    chat_description: describeChat(of),
  };
}

export function toRoundDto(of: Session, round: LoggedRound): z.input<typeof roundSchema> {
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
      user_on_or_off_topic_streak: streakOf(round),
      events: [...round.answerEvents, ...round.events],
    },
    scoring_pending: isPending(round),
  };
}

export function toRecentDto({ id, title, updatedAt }: RecentChat): z.input<typeof recentSchema>[number] {
  return { id, title, updated_at: updatedAt.toISOString() };
}

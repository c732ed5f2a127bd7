import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  date,
  double,
  integer,
  json,
  numeric,
  pick,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  tsvector,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import type { EchoState } from '#src/domain/alignment/chat-state.ts';
import type { ReportPeriod } from '#src/domain/alignment/log-totals.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

const totals = {
  rounds: bigint(),
  completedRounds: bigint(),
  stableRounds: bigint(),
  driftRounds: bigint(),
  refusalRounds: bigint(),
  ewmaSum: numeric(),
  inputTokens: bigint(),
  completionTokens: bigint(),
  costUsd: numeric(),
  latencyMs: bigint(),
};

export class ChatLogModel extends model(
  'chat_logs',
  {
    orgId: uuid(),
    chatId: uuid(),
    agentId: uuid(),
    createdBy: uuid(),
    audience: textArray(),
    audienceHash: bigint(),
    startedAt: timestamp(),
    updatedAt: timestamp(),
    state: text<EchoState>(),
    ...totals,
  },
  'chatId',
) {}

export class LogTextModel extends model(
  'log_texts',
  {
    orgId: uuid(),
    chatId: uuid(),
    round: integer(),
    words: tsvector(),
  },
  ['chatId', 'round'],
) {}

export class LogTotalModel extends model('log_totals', {
  id: bigint(),
  orgId: uuid(),
  audience: textArray(),
  audienceHash: bigint(),
  agentId: uuid(),
  span: text<'ever' | 'month' | 'day'>(),
  startsOn: date(),
  ofWhat: uuid(),
  stableChats: bigint(),
  watchChats: bigint(),
  driftUserChats: bigint(),
  driftAgentChats: bigint(),
  driftRecoveringChats: bigint(),
  refusalChats: bigint(),
  ...totals,
  chats: bigint(),
}) {}

export const echoStates = [
  'stable',
  'watch',
  'drift_user',
  'drift_agent',
  'drift_recovering',
  'refusal',
] as const satisfies readonly EchoState[];

/** Selects chats for statistics; `period` is the period in which a chat started. */
export type LogStatsFilter = { agentId: string | undefined; period: ReportPeriod };

/** `state` is the current state of a chat; all `words` must occur in its title or in one of its rounds. */
export type LogFilter = LogStatsFilter & { state: EchoState | undefined; words: string | undefined };

/**
 * Totals over rounds. Each scored round counts as stable, drift or refusal; `latencyMs` sums complete rounds. `chats`
 * counts the chats by state.
 */
export const logStats = shape({
  chats: json<{ [state in EchoState]: number }>(),
  rounds: numeric(),
  completedRounds: numeric(),
  stableRounds: numeric(),
  driftRounds: numeric(),
  refusalRounds: numeric(),
  ewmaSum: numeric(),
  inputTokens: numeric(),
  completionTokens: numeric(),
  costUsd: numeric(),
  latencyMs: numeric(),
});
export type LogStats = Row<typeof logStats>;

/**
 * A chat in the logs. `model` is the model of its newest round, `firstWords` is the beginning of its first message.
 */
export const loggedSession = shape({
  id: uuid(),
  title: text(),
  firstWords: text(),
  agentId: uuid(),
  agentName: text(),
  model: text(),
  startedAt: timestamp(),
  ...pick(ChatLogModel, 'rounds', 'completedRounds', 'stableRounds', 'driftRounds', 'refusalRounds', 'ewmaSum').columns,
  ...pick(ChatLogModel, 'inputTokens', 'completionTokens', 'costUsd', 'latencyMs').columns,
});
export type LoggedSession = Row<typeof loggedSession>;

export type LoggedChat = Omit<LoggedSession, 'model'>;

export const recentChat = pick(ChatModel, 'id', 'title', 'updatedAt');
export type RecentChat = Row<typeof recentChat>;

export const loggedAgent = shape({ id: uuid(), name: text() });
export type LoggedAgent = Row<typeof loggedAgent>;

export const loggedRound = shape({
  ...pick(RoundModel, 'round', 'status', 'errorCode', 'model', 'userContent', 'assistantReply', 'startedAt').columns,
  ...pick(RoundModel, 'latencyMs', 'inputTokens', 'completionTokens', 'costUsd', 'scoredAt', 'echoState').columns,
  ...pick(RoundModel, 'ewma', 'alignmentScore', 'foldState', 'answerEvents', 'events').columns,
});
export type LoggedRound = Row<typeof loggedRound>;

export const trendPoint = shape({ round: integer(), ewma: double(), state: text<EchoState>() });
export type TrendPoint = Row<typeof trendPoint>;

/** `last` is the number of the last round of the page; null if no rounds follow. */
export type RoundPage = { items: LoggedRound[]; last: number | null };

type RoundType = 'exchange' | 'refusal' | 'error';

export function roundTypeOf({ status, echoState }: Pick<LoggedRound, 'status' | 'echoState'>): RoundType {
  if (status === 'error') return 'error';
  return echoState === 'refusal' ? 'refusal' : 'exchange';
}

export const isScoringPending = ({ status, scoredAt }: Pick<LoggedRound, 'status' | 'scoredAt'>): boolean =>
  status === 'complete' && scoredAt === null;

/**
 * Returns the number of consecutive on-topic or off-topic messages up to this round; neutral messages do not count.
 */
export function topicStreakOf({ foldState }: Pick<LoggedRound, 'foldState'>): number | null {
  if (foldState === null) return null;
  return foldState.userLabel === 'off' ? foldState.offStreak : foldState.onStreak;
}

export const meanOf = (sum: number, count: number): number | null => (count === 0 ? null : sum / count);

export const scoredRoundCount = (stats: Pick<LogStats, 'stableRounds' | 'driftRounds' | 'refusalRounds'>): number =>
  stats.stableRounds + stats.driftRounds + stats.refusalRounds;

export function describeChat({ firstWords }: Pick<LoggedChat, 'firstWords'>): string {
  const characters = Array.from(firstWords.replaceAll(/\s+/g, ' ').trim());
  if (characters.length <= maxDescription) return characters.join('');
  return `${characters
    .slice(0, maxDescription - 1)
    .join('')
    .trimEnd()}…`;
}

const maxDescription = 200;

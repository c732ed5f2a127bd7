import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  booleanColumn,
  dateColumn,
  defineRowShape,
  doubleColumn,
  integerColumn,
  jsonColumn,
  numericColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  tsvectorColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { EchoState } from '#src/domain/alignment/chat-state.ts';
import type { ReportPeriod } from '#src/domain/alignment/log-totals.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

const totals = {
  rounds: bigintColumn(),
  completedRounds: bigintColumn(),
  stableRounds: bigintColumn(),
  watchRounds: bigintColumn(),
  driftRounds: bigintColumn(),
  refusalRounds: bigintColumn(),
  ewmaSum: numericColumn(),
  inputTokens: bigintColumn(),
  completionTokens: bigintColumn(),
  costUsd: numericColumn(),
  latencyMs: bigintColumn(),
};

export class ChatLogModel extends tableModel(
  'chat_logs',
  {
    orgId: uuidColumn(),
    chatId: uuidColumn(),
    agentId: uuidColumn(),
    createdBy: uuidColumn(),
    audience: textArrayColumn(),
    audienceHash: bigintColumn(),
    startedAt: timestampColumn(),
    updatedAt: timestampColumn(),
    state: textColumn<EchoState>(),
    ...totals,
  },
  'chatId',
) {}

export class LogTextModel extends tableModel(
  'log_texts',
  {
    orgId: uuidColumn(),
    chatId: uuidColumn(),
    round: integerColumn(),
    words: tsvectorColumn(),
  },
  ['chatId', 'round'],
) {}

export class LogTotalModel extends tableModel('log_totals', {
  id: bigintColumn(),
  orgId: uuidColumn(),
  audience: textArrayColumn(),
  audienceHash: bigintColumn(),
  agentId: uuidColumn(),
  span: textColumn<'ever' | 'month' | 'day'>(),
  startsOn: dateColumn(),
  ofWhat: uuidColumn(),
  stableChats: bigintColumn(),
  watchChats: bigintColumn(),
  driftUserChats: bigintColumn(),
  driftAgentChats: bigintColumn(),
  driftRecoveringChats: bigintColumn(),
  refusalChats: bigintColumn(),
  ...totals,
  chats: bigintColumn(),
}) {}

/** Filter of chats for statistics; `period` is the period in which a chat started. */
export type LogStatsFilter = { agentId: string | undefined; period: ReportPeriod };

/** `state` is the current state of a chat; all `words` must occur in its title or in one of its rounds. */
export type LogFilter = LogStatsFilter & { state: EchoState | undefined; words: string | undefined };

/**
 * Totals of chat logs. Each scored round is a refusal, drift (`drift_…`) or stable (`stable`, `watch`); `watchRounds` are
 * those of the stable ones in `watch`.
 */
export const logStatsRowShape = defineRowShape({
  chats: jsonColumn<{ [state in EchoState]: number }>(),
  rounds: numericColumn(),
  completedRounds: numericColumn(),
  stableRounds: numericColumn(),
  watchRounds: numericColumn(),
  driftRounds: numericColumn(),
  refusalRounds: numericColumn(),
  ewmaSum: numericColumn(),
  inputTokens: numericColumn(),
  completionTokens: numericColumn(),
  costUsd: numericColumn(),
  latencyMs: numericColumn(),
});
export type LogStats = SqlRow<typeof logStatsRowShape>;

/**
 * A chat in the logs. `model` is the model of its newest round, `firstWords` is the beginning of its first message.
 */
export const loggedSessionRowShape = defineRowShape({
  id: uuidColumn(),
  title: textColumn(),
  firstWords: textColumn(),
  agentId: uuidColumn(),
  agentName: textColumn(),
  /** The chat is with a draft version, and `agentId` is the draft. */
  isDraft: booleanColumn(),
  model: textColumn(),
  startedAt: timestampColumn(),
  ...pickColumns(ChatLogModel, 'rounds', 'completedRounds', 'stableRounds', 'watchRounds', 'driftRounds').columns,
  ...pickColumns(ChatLogModel, 'refusalRounds', 'ewmaSum').columns,
  ...pickColumns(ChatLogModel, 'inputTokens', 'completionTokens', 'costUsd', 'latencyMs').columns,
});
export type LoggedChatWithTotals = SqlRow<typeof loggedSessionRowShape>;

export type LoggedChat = Omit<LoggedChatWithTotals, 'model'>;

export const recentChatRowShape = pickColumns(ChatModel, 'id', 'title', 'updatedAt');
export type RecentChat = SqlRow<typeof recentChatRowShape>;

export const loggedAgentRowShape = defineRowShape({ id: uuidColumn(), name: textColumn() });
export type LoggedAgent = SqlRow<typeof loggedAgentRowShape>;

export const loggedRoundRowShape = defineRowShape({
  ...pickColumns(RoundModel, 'round', 'status', 'errorCode', 'model', 'userContent', 'assistantReply', 'startedAt')
    .columns,
  ...pickColumns(RoundModel, 'latencyMs', 'inputTokens', 'completionTokens', 'costUsd', 'scoredAt', 'echoState')
    .columns,
  ...pickColumns(RoundModel, 'ewma', 'alignmentScore', 'foldState', 'answerEvents', 'events').columns,
});
export type LoggedRound = SqlRow<typeof loggedRoundRowShape>;

export const loggedRoundDetailRowShape = defineRowShape({
  ...loggedRoundRowShape.columns,
  ...pickColumns(RoundModel, 'toolCalls').columns,
});
export type LoggedRoundDetail = SqlRow<typeof loggedRoundDetailRowShape>;

export const trendPointRowShape = defineRowShape({
  round: integerColumn(),
  ewma: doubleColumn(),
  state: textColumn<EchoState>(),
});
export type TrendPoint = SqlRow<typeof trendPointRowShape>;

/**
 * A page of rounds. `last` is the number of its last round, after which the next page begins; null on the last page.
 */
export type LoggedRoundPage = { items: LoggedRound[]; last: number | null };

type RoundType = 'exchange' | 'refusal' | 'error';

export function logTypeOfRound({ status, echoState }: Pick<LoggedRound, 'status' | 'echoState'>): RoundType {
  if (status === 'error') return 'error';
  return echoState === 'refusal' ? 'refusal' : 'exchange';
}

export const isScoringOfRoundPending = (
  { isDraft }: Pick<LoggedChat, 'isDraft'>,
  { status, scoredAt }: Pick<LoggedRound, 'status' | 'scoredAt'>,
): boolean => !isDraft && status === 'complete' && scoredAt === null;

/**
 * Returns the number of consecutive on-topic or off-topic messages up to this round; neutral messages do not count.
 */
export function topicStreakOfRound({ foldState }: Pick<LoggedRound, 'foldState'>): number | null {
  if (foldState === null) return null;
  return foldState.userLabel === 'off' ? foldState.offStreak : foldState.onStreak;
}

export const meanOrNull = (sum: number, count: number): number | null => (count === 0 ? null : sum / count);

export const countScoredRounds = (stats: Pick<LogStats, 'stableRounds' | 'driftRounds' | 'refusalRounds'>): number =>
  stats.stableRounds + stats.driftRounds + stats.refusalRounds;

export function describeLoggedChat({ firstWords }: Pick<LoggedChat, 'firstWords'>): string {
  const characters = Array.from(firstWords.replaceAll(/\s+/g, ' ').trim());
  if (characters.length <= maxDescription) return characters.join('');
  return `${characters
    .slice(0, maxDescription - 1)
    .join('')
    .trimEnd()}…`;
}

const maxDescription = 200;

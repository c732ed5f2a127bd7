import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  date,
  integer,
  json,
  numeric,
  type Row,
  text,
  textArray,
  timestamp,
  tsvector,
  uuid,
} from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import type { Period } from '#src/domain/alignment/chat-logs.ts';
import type { EchoState } from '#src/domain/alignment/fold.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

/** Of the rounds of a chat, and of those of many. */
const sums = {
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
    ...sums,
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
  ...sums,
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

/** Which chats sums are made of; a period is about when a chat began. */
export type SumsFilter = { agentId: string | undefined; period: Period };

/** Which chats are listed: `state` is that of a chat now, `words` stand together in its title or in one of its rounds. */
export type LogFilter = SumsFilter & { state: EchoState | undefined; words: string | undefined };

/**
 * What rounds come to; each scored round counts in one of the three classes, and latencies are those of complete rounds.
 * `chats` counts the chats in each state.
 */
export const logSums = shape({
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
export type LogSums = Row<typeof logSums>;

/** A chat as a session of its agent; `model` is that of its newest round, `firstWords` begin its first message. */
export const session = shape({
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
export type Session = Row<typeof session>;

/** A chat as logs list it. */
export type LoggedChat = Omit<Session, 'model'>;

export const recentChat = pick(ChatModel, 'id', 'title', 'updatedAt');
export type RecentChat = Row<typeof recentChat>;

export const loggedAgent = shape({ id: uuid(), name: text() });
export type LoggedAgent = Row<typeof loggedAgent>;

/** What a model said and what became of it; scores are null until there are any. */
export const loggedRound = shape({
  ...pick(RoundModel, 'round', 'status', 'errorCode', 'model', 'userContent', 'assistantReply', 'startedAt').columns,
  ...pick(RoundModel, 'latencyMs', 'inputTokens', 'completionTokens', 'costUsd', 'scoredAt', 'echoState').columns,
  ...pick(RoundModel, 'ewma', 'alignmentScore', 'foldState', 'answerEvents', 'events').columns,
});
export type LoggedRound = Row<typeof loggedRound>;

/** `last` is the round after which more follow, null where none do. */
export type RoundPage = { items: LoggedRound[]; last: number | null };

export type RoundType = 'exchange' | 'refusal' | 'error';

export function typeOf({ status, echoState }: Pick<LoggedRound, 'status' | 'echoState'>): RoundType {
  if (status === 'error') return 'error';
  return echoState === 'refusal' ? 'refusal' : 'exchange';
}

/** Complete, and not scored yet. */
export const isPending = ({ status, scoredAt }: Pick<LoggedRound, 'status' | 'scoredAt'>): boolean =>
  status === 'complete' && scoredAt === null;

/** How many messages in a row, up to this round, were on the topic, or off it; neutral ones do not count. */
export function streakOf({ foldState }: Pick<LoggedRound, 'foldState'>): number | null {
  if (foldState === null) return null;
  return foldState.userLabel === 'off' ? foldState.offStreak : foldState.onStreak;
}

/** Null where there is nothing to take it of. */
export const meanOf = (sum: number, count: number): number | null => (count === 0 ? null : sum / count);

/** Each scored round is in one class. */
export const scoredRounds = (sums: Pick<LogSums, 'stableRounds' | 'driftRounds' | 'refusalRounds'>): number =>
  sums.stableRounds + sums.driftRounds + sums.refusalRounds;

/** One line of what the first message says. */
export function describeChat({ firstWords }: Pick<LoggedChat, 'firstWords'>): string {
  const characters = Array.from(firstWords.replaceAll(/\s+/g, ' ').trim());
  if (characters.length <= maxDescription) return characters.join('');
  return `${characters
    .slice(0, maxDescription - 1)
    .join('')
    .trimEnd()}…`;
}

const maxDescription = 200;

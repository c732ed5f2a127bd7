import { boolean, double, json, pick, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { EchoState, FoldState, StreakThresholds } from '#src/domain/alignment/fold.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

export const scoredChat = shape({
  ...pick(ChatModel, 'orgId', 'title', 'titleSource').columns,
  ...pick(AgentModel, 'agentPrompt', 'chatModel', 'anchorWords').columns,
  ...pick(AgentModel, 'userOffTopicStreakThreshold', 'userOnTopicStreakThreshold').columns,
  chatId: uuid(),
  agentId: uuid(),
  /** An operator wants what other scorers have scored to be scored again. */
  rescoringWantedAt: ChatModel.columns.rescoringWantedAt,
  /** The last round up to which that is done. */
  rescoredTo: ChatModel.columns.rescoredTo,
});
/** A chat as its scorer sees it: what the agent is about, and when the agent's makers want to be told. */
export type ScoredChat = Row<typeof scoredChat>;

export const alignmentSubject = pick(ChatModel, 'id', 'orgId', 'agentId', 'createdBy', 'acl');
/** What the job of a chat's alignment is made from. */
export type AlignmentSubject = Row<typeof alignmentSubject>;

export const roundTexts = shape({ ...pick(RoundModel, 'round', 'userContent').columns, assistantReply: text() });
/** The texts of a complete round. */
export type RoundTextsRow = Row<typeof roundTexts>;

/** A complete round that waits for its scores; `events` say what went wrong meanwhile. */
export const waitingRound = shape({ ...roundTexts.columns, events: RoundModel.columns.events });

export const roundSaidBefore = shape({ ...roundTexts.columns, isRefusal: boolean() });
/** The round before, as far as the next one may go on about it. */
export type RoundSaidBefore = Row<typeof roundSaidBefore>;

export const roundBefore = shape({ ...pick(RoundModel, 'round', 'pruned').columns, state: json<FoldState>() });
/** A scored round before the one that is folded; `pruned` as far as earlier rounds have seen to it. */
export type RoundBefore = Row<typeof roundBefore>;

/** What the scores come from: embeddings and words, words alone, or a chat model where those were in doubt. */
export type ScoreSource = 'embedding' | 'words' | 'llm';

/** All that the fold of a round needs of it; `refusal` is null when the reply declines nothing. */
export type MeasuredRound = {
  scorerVersion: string;
  scoreSource: ScoreSource;
  userScore: number;
  agentScore: number;
  neutral: boolean;
  refusalReading: Refusal | null;
};

/** What follows from a measured round and the state before it. */
export type FoldedScore = {
  refusalKind: RefusalKind | null;
  alignmentScore: number;
  ewma: number;
  echoState: EchoState;
  foldState: FoldState;
  events: AlignmentEvent[];
};

/** Everything that scoring writes into a round. */
export type RoundScore = MeasuredRound & FoldedScore;

/** A round's scores, and the rounds that leave the model's context because of them. */
export type ScoringResult = { score: RoundScore; prunedRounds: number[] };

export const storedScore = shape({
  ...pick(RoundModel, 'round', 'pruned', 'refusalKind', 'refusalReading', 'events').columns,
  scoredAt: timestamp(),
  scorerVersion: text(),
  scoreSource: text<ScoreSource>(),
  userScore: double(),
  agentScore: double(),
  neutral: boolean(),
  alignmentScore: double(),
  ewma: double(),
  echoState: text<EchoState>(),
  foldState: json<FoldState>(),
});
/** A scored round without its texts, as it is stored. */
export type StoredScore = Row<typeof storedScore>;

export function thresholdsOf(chat: ScoredChat): StreakThresholds {
  return { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
}

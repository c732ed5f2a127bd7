import { boolean, double, json, pick, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { AlignmentState, EchoState, StreakThresholds } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

export const scoredChat = shape({
  ...pick(ChatModel, 'orgId', 'title', 'titleSource').columns,
  ...pick(AgentModel, 'agentPrompt', 'chatModel', 'anchorWords').columns,
  ...pick(AgentModel, 'userOffTopicStreakThreshold', 'userOnTopicStreakThreshold').columns,
  chatId: uuid(),
  agentId: uuid(),
  /** When an operator requested that rounds with scores of other scorer versions are scored again. */
  rescoringWantedAt: ChatModel.columns.rescoringWantedAt,
  /** The last round that the requested rescoring has reached. */
  rescoredTo: ChatModel.columns.rescoredTo,
});
export type ScoredChat = Row<typeof scoredChat>;

export const alignmentSubject = pick(ChatModel, 'id', 'orgId', 'agentId', 'createdBy', 'acl');
export type AlignmentSubject = Row<typeof alignmentSubject>;

export const roundTexts = shape({ ...pick(RoundModel, 'round', 'userContent').columns, assistantReply: text() });
export type RoundTextsRow = Row<typeof roundTexts>;

/** A complete round without scores. `events` are failed attempts to score it. */
export const waitingRound = shape({ ...roundTexts.columns, events: RoundModel.columns.events });

export const previousRound = shape({ ...roundTexts.columns, isRefusal: boolean() });
/** Texts of the scored round before a round, which that round may continue. */
export type PreviousRound = Row<typeof previousRound>;

export const roundBefore = shape({ ...pick(RoundModel, 'round', 'pruned').columns, state: json<AlignmentState>() });
export type EarlierScoredRound = Row<typeof roundBefore>;

/** Source of scores: embeddings and words, words alone, or a chat model that adjudicated doubtful scores. */
export type ScoreSource = 'embedding' | 'words' | 'llm';

/** Measurement of a round, independent of other scores. `refusalReading` is null if the reply declines nothing. */
export type MeasuredRound = {
  scorerVersion: string;
  scoreSource: ScoreSource;
  userScore: number;
  agentScore: number;
  neutral: boolean;
  refusalReading: Refusal | null;
};

export type FoldedScore = {
  refusalKind: RefusalKind | null;
  alignmentScore: number;
  ewma: number;
  echoState: EchoState;
  foldState: AlignmentState;
  events: AlignmentEvent[];
};

export type RoundScore = MeasuredRound & FoldedScore;

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
  foldState: json<AlignmentState>(),
});
export type StoredScore = Row<typeof storedScore>;

export function thresholdsOf(chat: ScoredChat): StreakThresholds {
  return { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
}

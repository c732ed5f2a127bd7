import { boolean, double, json, pick, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { AlignmentState, EchoState, StreakThresholds } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

export const chatToScore = shape({
  ...pick(ChatModel, 'orgId', 'title', 'titleSource').columns,
  ...pick(AgentModel, 'agentPrompt', 'chatModel', 'anchorWords').columns,
  ...pick(AgentModel, 'userOffTopicStreakThreshold', 'userOnTopicStreakThreshold').columns,
  chatId: uuid(),
  agentId: uuid(),
  /**
   * When an operator requested to rescore rounds that were scored by another scorer version; null without a request.
   */
  rescoringWantedAt: ChatModel.columns.rescoringWantedAt,
  /** Number of the last round that the requested rescoring has processed. */
  rescoredTo: ChatModel.columns.rescoredTo,
});
export type ChatToScore = Row<typeof chatToScore>;

export const chatToQueue = pick(ChatModel, 'id', 'orgId', 'agentId', 'createdBy', 'acl');
export type ChatToQueue = Row<typeof chatToQueue>;

export const storedRoundTexts = shape({ ...pick(RoundModel, 'round', 'userContent').columns, assistantReply: text() });
export type StoredRoundTexts = Row<typeof storedRoundTexts>;

/** A complete round without scores. `events` records failed attempts to score the round. */
export const unscoredRound = shape({ ...storedRoundTexts.columns, events: RoundModel.columns.events });

export const previousRound = shape({ ...storedRoundTexts.columns, isRefusal: boolean() });
/**
 * The last scored round before the one that is being scored. A message may be a follow-up, so it is scored together
 * with the texts of this round.
 */
export type PreviousRound = Row<typeof previousRound>;

export const earlierScoredRound = shape({
  ...pick(RoundModel, 'round', 'pruned').columns,
  state: json<AlignmentState>(),
});
export type EarlierScoredRound = Row<typeof earlierScoredRound>;

/**
 * How a round was scored: with embeddings and words, with words alone, or by a chat model that decided doubtful scores.
 */
type ScoreSource = 'embedding' | 'words' | 'llm';

/**
 * Scores of a single round that do not depend on other rounds. `refusalReading` is null if the reply refuses nothing.
 */
export type RoundMeasurement = {
  scorerVersion: string;
  scoreSource: ScoreSource;
  userScore: number;
  agentScore: number;
  neutral: boolean;
  refusalReading: Refusal | null;
};

export type AlignmentAfterRound = {
  refusalKind: RefusalKind | null;
  alignmentScore: number;
  ewma: number;
  echoState: EchoState;
  foldState: AlignmentState;
  events: AlignmentEvent[];
};

export type RoundScore = RoundMeasurement & AlignmentAfterRound;

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

export function streakThresholdsOf(chat: ChatToScore): StreakThresholds {
  return { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
}

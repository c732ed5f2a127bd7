import {
  booleanColumn,
  defineRowShape,
  doubleColumn,
  jsonColumn,
  pickColumns,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { AlignmentState, EchoState, StreakThresholds } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';

export const chatToScoreRowShape = defineRowShape({
  ...pickColumns(ChatModel, 'orgId', 'title', 'titleSource').columns,
  ...pickColumns(AgentModel, 'agentPrompt', 'chatModel', 'anchorWords').columns,
  ...pickColumns(AgentModel, 'userOffTopicStreakThreshold', 'userOnTopicStreakThreshold').columns,
  chatId: uuidColumn(),
  agentId: uuidColumn(),
  /**
   * Time at which an operator requested that the chat's rounds be scored again by the current scorer version; null
   * without a request.
   */
  rescoringWantedAt: ChatModel.columns.rescoringWantedAt,
  rescoredTo: ChatModel.columns.rescoredTo,
});
/** `chatModel` is the model that the agent uses. */
export type ChatToScore = Omit<SqlRow<typeof chatToScoreRowShape>, 'chatModel'> & { chatModel: string };

export const chatToQueueRowShape = pickColumns(ChatModel, 'id', 'orgId', 'agentId', 'createdBy', 'acl');
export type ChatToQueueForScoring = SqlRow<typeof chatToQueueRowShape>;

export const storedRoundTextsRowShape = defineRowShape({
  ...pickColumns(RoundModel, 'round', 'userContent').columns,
  assistantReply: textColumn(),
});
export type StoredRoundTexts = SqlRow<typeof storedRoundTextsRowShape>;

/** A complete round without scores. `events` records failed attempts to score the round. */
export const unscoredRoundRowShape = defineRowShape({
  ...storedRoundTextsRowShape.columns,
  events: RoundModel.columns.events,
});

export const previousRoundRowShape = defineRowShape({
  ...storedRoundTextsRowShape.columns,
  isRefusal: booleanColumn(),
});
/** The last scored round before the round to score, whose message may be a follow-up to this earlier round. */
export type PreviousRound = SqlRow<typeof previousRoundRowShape>;

export const earlierScoredRoundRowShape = defineRowShape({
  ...pickColumns(RoundModel, 'round', 'pruned').columns,
  state: jsonColumn<AlignmentState>(),
});
export type EarlierScoredRound = SqlRow<typeof earlierScoredRoundRowShape>;

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

export type RoundScoringResult = { score: RoundScore; prunedRounds: number[] };

export const storedScoreRowShape = defineRowShape({
  ...pickColumns(RoundModel, 'round', 'pruned', 'refusalKind', 'refusalReading', 'events').columns,
  scoredAt: timestampColumn(),
  scorerVersion: textColumn(),
  scoreSource: textColumn<ScoreSource>(),
  userScore: doubleColumn(),
  agentScore: doubleColumn(),
  neutral: booleanColumn(),
  alignmentScore: doubleColumn(),
  ewma: doubleColumn(),
  echoState: textColumn<EchoState>(),
  foldState: jsonColumn<AlignmentState>(),
});
export type StoredRoundScore = SqlRow<typeof storedScoreRowShape>;

export function streakThresholdsOfChat(chat: ChatToScore): StreakThresholds {
  return { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
}

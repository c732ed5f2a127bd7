import type { AlignmentEvent } from '#src/domain/alignment-events.ts';
import type { EchoState, FoldState, StreakThresholds } from '#src/domain/alignment-fold.ts';
import type { FoldedRound } from '#src/domain/alignment-steering.ts';
import type { Refusal, RefusalKind } from '#src/domain/refusal.ts';

/** A chat as its scorer sees it: what the agent is about, and when the agent's makers want to be told. */
export type ScoredChat = {
  orgId: string;
  chatId: string;
  agentId: string;
  agentPrompt: string;
  chatModel: string;
  title: string;
  titleSource: 'message' | 'generated' | 'user';
  anchorWords: Record<string, number>;
  userOffTopicStreakThreshold: number;
  userOnTopicStreakThreshold: number;
  /** An operator wants what other scorers have scored to be scored again. */
  rescoringWantedAt: Date | null;
  /** The last round up to which that is done. */
  rescoredTo: number;
};

/** What the job of a chat's alignment is made from. */
export type AlignmentSubject = { id: string; orgId: string; agentId: string; createdBy: string; acl: string[] };

/** The texts of a complete round. */
export type RoundTextsRow = { round: number; userContent: string; assistantReply: string };

/** A complete round that waits for its scores; `events` say what went wrong meanwhile. */
export type WaitingRound = RoundTextsRow & { events: AlignmentEvent[] };

/** The round before, as far as the next one may go on about it. */
export type RoundSaidBefore = RoundTextsRow & { isRefusal: boolean };

/** A scored round before the one that is folded; `pruned` as far as earlier rounds have seen to it. */
export type RoundBefore = FoldedRound & { pruned: boolean };

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

/** A scored round without its texts, as it is stored. */
export type StoredScore = RoundScore & { round: number; scoredAt: Date; pruned: boolean };

export function thresholdsOf(chat: ScoredChat): StreakThresholds {
  return { offTopic: chat.userOffTopicStreakThreshold, onTopic: chat.userOnTopicStreakThreshold };
}

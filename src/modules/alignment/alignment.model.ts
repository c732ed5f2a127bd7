import type { AlignmentEvent } from '#src/domain/alignment-events.ts';
import type { EchoState, FoldState } from '#src/domain/alignment-fold.ts';
import type { RefusalKind } from '#src/domain/refusal.ts';

/** A chat as its scorer sees it: what the agent is about, and when the agent's makers want to be told. */
export type ScoredChat = {
  orgId: string;
  chatId: string;
  agentId: string;
  chatModel: string;
  title: string;
  titleSource: 'message' | 'generated' | 'user';
  anchorWords: Record<string, number>;
  userOffTopicStreakThreshold: number;
  userOnTopicStreakThreshold: number;
};

/** What the job of a chat's alignment is made from. */
export type AlignmentSubject = { id: string; orgId: string; agentId: string; createdBy: string; acl: string[] };

/** A complete round that waits for its scores. */
export type UnscoredRound = { round: number; userContent: string; assistantReply: string };

/** A round with its scores, as far as the next one depends on it. */
export type FoldedRow = { round: number; userContent: string; pruned: boolean; foldState: FoldState };

/** Everything that scoring writes into a round. */
export type RoundScore = {
  scorerVersion: string;
  userScore: number;
  agentScore: number;
  neutral: boolean;
  refusalKind: RefusalKind | null;
  alignmentScore: number;
  ewma: number;
  echoState: EchoState;
  foldState: FoldState;
  events: AlignmentEvent[];
};

/** A round's scores, and the rounds that leave the model's context because of them. */
export type ScoringResult = { score: RoundScore; prunedRounds: number[] };

import type { AttemptOfJob } from './jobs.ts';

/** The argument of `scoreAlignment` and of each of its activities. */
export type ScoreAlignmentInput = { orgId: string; chatId: string };

export type ScoreRoundResult =
  /** `isUntitled`: nobody has given the chat a title yet. */
  | { scored: true; round: number; state: string; ewma: number; isUntitled: boolean }
  /** No round is waiting. */
  | { scored: false };

/** What was queued since the run began, for another round, does not end with it. */
export type RecordAlignmentCancellationInput = ScoreAlignmentInput & AttemptOfJob;

export type RecordAlignmentFailureInput = ScoreAlignmentInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type AlignmentProgress = { scoredRounds: number; lastRound: number | null };

/** Signal name: a round was stored. Harmless when doubled or lost, since unscored rounds are the queue. */
export const nudgeSignalName = 'nudge';

import type { AttemptOfJob } from './attempts.ts';

/** The argument of `scoreAlignment` and of each of its activities. */
export type ScoreAlignmentInput = { orgId: string; chatId: string };

export type ScoreRoundResult =
  /** `isUntitled`: the chat has no title yet. */
  | { scored: true; round: number; state: string; ewma: number; isUntitled: boolean }
  /** No round is waiting. */
  | { scored: false };

/** Only cancels the attempt of this run: a later round may have queued another one. */
export type RecordAlignmentCancellationInput = ScoreAlignmentInput & AttemptOfJob;

export type RecordAlignmentFailureInput = ScoreAlignmentInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type AlignmentProgress = { scoredRounds: number; lastRound: number | null };

/** Signal: a round was stored. May be lost or repeated, because the unscored rounds in Postgres are the queue. */
export const nudgeSignalName = 'nudge';

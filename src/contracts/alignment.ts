import type { JobAttempt } from './workflow-runs.ts';

export type ScoreAlignmentInput = { orgId: string; chatId: string };

/** `isJobDone`: no round was left, so the activity has closed the job. */
export type ScoreRoundResult =
  | { scored: true; round: number; state: string; ewma: number; isUntitled: boolean; isJobDone: boolean }
  | { scored: false };

/**
 * Input of the activity that records a cancelled alignment job. Includes the attempt, because a later round may have
 * queued another attempt, which must not be cancelled.
 */
export type RecordAlignmentCancellationInput = ScoreAlignmentInput & JobAttempt;

export type RecordAlignmentFailureInput = ScoreAlignmentInput & { error: { code: string; message: string } };

export type AlignmentProgress = { scoredRounds: number; lastRound: number | null };

/**
 * Tells a running alignment workflow that a round was stored. Losing this signal does no harm, because Postgres lists
 * the unscored rounds.
 */
export const scoreNewRoundsSignalName = 'nudge';

export const anchorWordStages = ['propose'] as const;

type AnchoringStage = (typeof anchorWordStages)[number];

export type ProposeAnchorWordsInput = { orgId: string; agentId: string };

export type ProposeAnchorWordsResult = { count: number };

export type RecordAnchorWordsEndInput = ProposeAnchorWordsInput & JobAttempt;
export type RecordAnchorWordsFailureInput = RecordAnchorWordsEndInput & { error: { code: string; message: string } };

export type AnchorWordsProgress = { stage: AnchoringStage | 'queued' | 'done' };

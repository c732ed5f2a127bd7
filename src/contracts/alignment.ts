import type { JobAttempt } from './workflow-runs.ts';

export type ScoreAlignmentInput = { orgId: string; chatId: string };

export type ScoreRoundResult =
  | { scored: true; round: number; state: string; ewma: number; isUntitled: boolean }
  | { scored: false };

/** Includes the attempt, because a later round may have queued another attempt, which must not be cancelled. */
export type RecordAlignmentCancellationInput = ScoreAlignmentInput & JobAttempt;

export type RecordAlignmentFailureInput = ScoreAlignmentInput & { error: { code: string; message: string } };

export type AlignmentProgress = { scoredRounds: number; lastRound: number | null };

/** The nudge signal (a round was stored) may be lost: workflows read unscored rounds from Postgres. */
export const nudgeSignalName = 'nudge';

export const anchoringStages = ['propose'] as const;

type AnchoringStage = (typeof anchoringStages)[number];

export type ProposeAnchorWordsInput = { orgId: string; agentId: string };

/** `count` is the number of anchor words that the agent received (0 for a deleted agent). */
export type ProposeAnchorWordsResult = { count: number };

export type RecordAnchoringEndInput = ProposeAnchorWordsInput & JobAttempt;
export type RecordAnchoringFailureInput = RecordAnchoringEndInput & { error: { code: string; message: string } };

export type AnchoringProgress = { stage: AnchoringStage | 'queued' | 'done' };

import type { AttemptOfJob } from './attempts.ts';

export const anchoringStages = ['propose'] as const;

export type AnchoringStage = (typeof anchoringStages)[number];

/** The argument of `proposeAnchorWords` and of each of its activities. */
export type ProposeAnchorWordsInput = { orgId: string; agentId: string };

/** Number of words that the agent received; 0 for a deleted agent. */
export type ProposeAnchorWordsResult = { count: number };

export type RecordAnchoringEndInput = ProposeAnchorWordsInput & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordAnchoringFailureInput = RecordAnchoringEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type AnchoringProgress = { stage: AnchoringStage | 'queued' | 'done' };

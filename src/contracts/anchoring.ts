import type { AttemptOfJob } from './jobs.ts';

export const anchoringStages = ['propose'] as const;

export type AnchoringStage = (typeof anchoringStages)[number];

/** The argument of `proposeAnchorWords` and of each of its activities. */
export type ProposeAnchorWordsInput = { orgId: string; agentId: string };

/** How many words the agent has been given; 0 for an agent that is there no more. */
export type ProposeAnchorWordsResult = { count: number };

export type RecordAnchoringEndInput = ProposeAnchorWordsInput & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordAnchoringFailureInput = RecordAnchoringEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type AnchoringProgress = { stage: AnchoringStage | 'queued' | 'done' };

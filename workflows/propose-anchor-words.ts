import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { AnchoringActivities } from '#activities/anchoring.ts';
import type { AnchoringProgress, ProposeAnchorWordsInput, ProposeAnchorWordsResult } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, recordEndOfRun } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { jobUpdatePolicy, slowActivityPolicy } from './policies.ts';
import { showStage } from './visibility.ts';

const { proposeWords } = proxyActivities<AnchoringActivities>(slowActivityPolicy);
const {
  recordAnchoring,
  recordParkedAnchoring,
  recordResumedAnchoring,
  recordAnchoringFailure,
  recordAnchoringCancellation,
} = proxyActivities<AnchoringActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<AnchoringProgress>(stageQueryName);

export async function proposeAnchorWords(input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> {
  let progress: AnchoringProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);
  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedAnchoring({ ...input, error }),
    resumed: () => recordResumedAnchoring(input),
  });

  try {
    progress = { stage: 'propose' };
    showStage('propose', "Collecting candidates from the agent's chat model and a list of English words.");
    const { count } = await orPark(() => proposeWords(input));
    await recordAnchoring({ ...input, ...attemptOfJob() });
    progress = { stage: 'done' };
    showStage('done', count === 0 ? 'Done: the agent was deleted.' : `Done: ${count} words are proposed.`);
    return { count };
  } catch (error) {
    throw await recordEndOfRun(error, {
      cancelled: () => recordAnchoringCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordAnchoringFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
  }
}

import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { AnchoringActivities } from '#activities/anchoring.ts';
import type { AnchoringProgress, ProposeAnchorWordsInput, ProposeAnchorWordsResult } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun } from './failure.ts';
import { parking } from './parking.ts';
import { bulk, record } from './policies.ts';
import { showStage } from './visibility.ts';

// A slow model is asked twice, within two minutes.
const { proposeWords } = proxyActivities<AnchoringActivities>(bulk);
const {
  recordAnchoring,
  recordParkedAnchoring,
  recordResumedAnchoring,
  recordAnchoringFailure,
  recordAnchoringCancellation,
} = proxyActivities<AnchoringActivities>(record);

const stageQuery = defineQuery<AnchoringProgress>(stageQueryName);

/** Gives a published agent the words that its anchors could be extended by, once. */
export async function proposeAnchorWords(input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> {
  let progress: AnchoringProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);
  const orPark = parking({
    parked: (error) => recordParkedAnchoring({ ...input, error }),
    resumed: () => recordResumedAnchoring(input),
  });

  try {
    progress = { stage: 'propose' };
    showStage('propose', "Asking the agent's chat model, and a list of English words, what the agent may talk about.");
    const { count } = await orPark(() => proposeWords(input));
    await recordAnchoring({ ...input, ...attemptOfJob() });
    progress = { stage: 'done' };
    showStage('done', count === 0 ? 'Done: the agent was deleted meanwhile.' : `Done: ${count} words are proposed.`);
    return { count };
  } catch (error) {
    throw await endOfRun(error, {
      cancelled: () => recordAnchoringCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordAnchoringFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
  }
}

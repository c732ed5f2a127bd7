import { defineQuery, proxyActivities, setHandler } from '@temporalio/workflow';
import type { AnchorWordActivities } from '#activities/anchoring.ts';
import type {
  AnchorWordsProgress,
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
} from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { jobUpdatePolicy, slowActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

const { proposeWords } = proxyActivities<AnchorWordActivities>(slowActivityPolicy);
const {
  recordAnchoring,
  recordParkedAnchoring,
  recordResumedAnchoring,
  recordAnchoringFailure,
  recordAnchoringCancellation,
} = proxyActivities<AnchorWordActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<AnchorWordsProgress>(stageQueryName);

export async function proposeAnchorWords(input: ProposeAnchorWordsInput): Promise<ProposeAnchorWordsResult> {
  let progress: AnchorWordsProgress = { stage: 'queued' };
  setHandler(stageQuery, () => progress);
  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedAnchoring({ ...input, error }),
    resumed: () => recordResumedAnchoring(input),
  });

  try {
    progress = { stage: 'propose' };
    showRunStage('propose', "Collecting candidates from the agent's chat model and a list of English words.");
    const { count } = await orPark(() => proposeWords(input));
    await recordAnchoring({ ...input, ...readJobAttemptOfRun() });
    progress = { stage: 'done' };
    showRunStage('done', count === 0 ? 'Done: the agent was deleted.' : `Done: ${count} words are proposed.`);
    return { count };
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordAnchoringCancellation({ ...input, ...readJobAttemptOfRun() }),
      failed: (failure) => recordAnchoringFailure({ ...input, ...readJobAttemptOfRun(), error: failure }),
    });
  }
}

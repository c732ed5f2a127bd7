import {
  ApplicationFailure,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { AlignmentActivities } from '#activities/alignment.ts';
import {
  type AlignmentProgress,
  type ScoreAlignmentInput,
  scoreNewRoundsSignalName,
} from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd, toRunFailure } from './failure.ts';
import { jobUpdatePolicy, optionalActivityPolicy, quickActivityPolicy } from './policies.ts';
import { clearRunErrorCode, showRunStage } from './visibility.ts';

const { scoreNextRound } = proxyActivities<AlignmentActivities>(quickActivityPolicy);
const { recordAlignmentSuccess, recordAlignmentFailure, recordAlignmentCancellation } =
  proxyActivities<AlignmentActivities>(jobUpdatePolicy);
const { nameChat } = proxyActivities<AlignmentActivities>({ ...optionalActivityPolicy, summary: 'Writing a title' });

const stageQuery = defineQuery<AlignmentProgress>(stageQueryName);
const nudgeSignal = defineSignal(scoreNewRoundsSignalName);

/** Continues as new after this many events. A round adds about ten; Temporal warns at 10,000 events. */
const eventsPerRun = 1_500;

/**
 * Scores the unscored rounds of a chat in order, and generates the chat's title concurrently. A nudge signal makes the
 * run look for unscored rounds again. No signal is lost: Temporal refuses to close a run with unhandled signals.
 */
export async function scoreAlignment(input: ScoreAlignmentInput): Promise<void> {
  let progress: AlignmentProgress = { scoredRounds: 0, lastRound: null };
  let isNudged = false;
  setHandler(stageQuery, () => progress);
  setHandler(nudgeSignal, () => {
    isNudged = true;
  });

  let isUntitled = false;
  let naming: Promise<void> | undefined;
  let isNaming = false;
  /** Starts generating the chat's title. Scoring does not wait: a slow model takes long for it. */
  function beginNaming(): void {
    isNaming = true;
    naming = nameChat(input)
      .catch(goOnWithoutTitle)
      .finally(() => {
        isNaming = false;
      });
  }

  /** Returns true if the last scored round has closed the job. */
  async function scoreWaitingRounds(): Promise<boolean> {
    for (;;) {
      if (workflowInfo().historyLength > eventsPerRun) await continueAsNew<typeof scoreAlignment>(input);
      const result = await scoreNextRound(input);
      if (!result.scored) return false;
      const { round, state, ewma } = result;
      isUntitled = result.isUntitled;
      progress = { scoredRounds: progress.scoredRounds + 1, lastRound: round };
      showRunStage('score', `Round ${round}: ${state}, trend ${ewma.toFixed(1)} of 100.`);
      if (result.isJobDone) return true;
    }
  }

  async function scoreUntilDone(): Promise<void> {
    showRunStage('score', 'Looking for unscored rounds.');
    do {
      isNudged = false;
      const isRecorded = await scoreWaitingRounds();
      if (!isRecorded) await recordAlignmentSuccess(input);
      if (isUntitled && naming === undefined) beginNaming();
      await condition(() => isNudged || !isNaming);
    } while (isNudged);
    showRunStage('done', `Done: ${progress.scoredRounds} rounds, the last is round ${progress.lastRound ?? 'none'}.`);
  }

  /**
   * Records why the run ends. Returns the error to throw; undefined if the run must continue, because a nudge signal
   * arrived meanwhile.
   */
  async function recordEnd(error: unknown): Promise<unknown> {
    await naming;
    isNudged = false;
    const end = await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordAlignmentCancellation({ ...input, ...readJobAttemptOfRun() }),
      failed: (failure) => recordAlignmentFailure({ ...input, error: failure }),
    });
    const isRetried = end instanceof ApplicationFailure && isNudged;
    return isRetried ? undefined : end;
  }

  for (;;) {
    try {
      return await scoreUntilDone();
    } catch (error) {
      const end = await recordEnd(error);
      if (end !== undefined) throw end;
      clearRunErrorCode();
    }
  }
}

function goOnWithoutTitle(error: unknown): void {
  if (toRunFailure(error) === undefined) throw error;
}

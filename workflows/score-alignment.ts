import {
  ApplicationFailure,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  patched,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { AlignmentActivities } from '#activities/alignment.ts';
import { type AlignmentProgress, nudgeSignalName, type ScoreAlignmentInput } from '#src/contracts/alignment.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun, failureOf } from './failure.ts';
import { optional, quick, record } from './policies.ts';
import { hideFailure, showStage } from './visibility.ts';

const { scoreNextRound } = proxyActivities<AlignmentActivities>(quick);
const { recordAlignmentSuccess, recordAlignmentFailure, recordAlignmentCancellation } =
  proxyActivities<AlignmentActivities>(record);
const { nameChat } = proxyActivities<AlignmentActivities>(optional);

const stageQuery = defineQuery<AlignmentProgress>(stageQueryName);
const nudgeSignal = defineSignal(nudgeSignalName);

/** Each round adds about ten events; a history stays far below the 10,000 at which the server warns. */
const eventsPerRun = 1_500;

/**
 * Scores the chat's rounds in order until none waits, and gives the chat its title beside that. The rounds without
 * scores are the queue: a nudge only says that it is worth looking again. One that comes while the last step runs, or
 * even while this run closes, makes it look again, because the server refuses to close a run that has not seen all of
 * its signals.
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
  /** Once a run, and never waited for by a round: a title takes a slow model as long as an answer. */
  function beginNaming(): void {
    isNaming = true;
    naming = nameChat(input)
      .catch(goOnWithoutTitle)
      .finally(() => {
        isNaming = false;
      });
  }

  async function scoreWaitingRounds(): Promise<void> {
    for (;;) {
      const result = await scoreNextRound(input);
      if (!result.scored) return;
      const { round, state, ewma } = result;
      isUntitled = result.isUntitled;
      progress = { scoredRounds: progress.scoredRounds + 1, lastRound: round };
      showStage('score', `Round ${round}: ${state}, trend ${ewma.toFixed(1)} of 100.`);
      if (workflowInfo().historyLength > eventsPerRun) await continueAsNew<typeof scoreAlignment>(input);
    }
  }

  async function scoreUntilDone(): Promise<void> {
    // Runs that began before this name their stage with the first round that they score.
    if (patched('stage-from-the-start')) showStage('score', 'Looking for rounds that wait for their scores.');
    // Runs that began before the title was made beside the scores go on in the order in which they began.
    const namesBeside = patched('name-beside-scores');
    do {
      isNudged = false;
      await scoreWaitingRounds();
      if (!namesBeside) await nameChat(input).catch(goOnWithoutTitle);
      await recordAlignmentSuccess(input);
      if (namesBeside && isUntitled && naming === undefined) beginNaming();
      await condition(() => isNudged || !isNaming);
    } while (isNudged);
    showStage('done', `Done: ${progress.scoredRounds} rounds, the last is round ${progress.lastRound ?? 'none'}.`);
  }

  /** @returns what to throw; undefined when a nudge arrived after the failure, which the run must not swallow */
  async function recordEnd(error: unknown): Promise<unknown> {
    // Nothing is written after the end.
    await naming;
    isNudged = false;
    const end = await endOfRun(error, {
      cancelled: () => recordAlignmentCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordAlignmentFailure({ ...input, error: failure }),
    });
    const isRetried = end instanceof ApplicationFailure && isNudged && patched('continue-after-late-nudge');
    return isRetried ? undefined : end;
  }

  for (;;) {
    try {
      return await scoreUntilDone();
    } catch (error) {
      const end = await recordEnd(error);
      if (end !== undefined) throw end;
      hideFailure();
    }
  }
}

function goOnWithoutTitle(error: unknown): void {
  if (failureOf(error) === undefined) throw error;
}

import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { ReembeddingActivities } from '#activities/reembedding.ts';
import {
  pauseUpdateName,
  type ReembeddingProgress,
  type ReembedOrganizationInput,
  type ReembedOrganizationResult,
  resumeUpdateName,
} from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { attemptOfJob, endOfRun } from './failure.ts';
import { parking } from './parking.ts';
import { quick, record, turn } from './policies.ts';
import { showStage } from './visibility.ts';

const { countReembeddings } = proxyActivities<ReembeddingActivities>(quick);
const { openReembeddings, awaitReembeddings } = proxyActivities<ReembeddingActivities>(turn);
const {
  recordReembeddingPause,
  recordReembedding,
  recordParkedReembedding,
  recordResumedReembedding,
  recordReembeddingFailure,
  recordReembeddingCancellation,
} = proxyActivities<ReembeddingActivities>(record);

const stageQuery = defineQuery<ReembeddingProgress>(stageQueryName);
const pauseUpdate = defineUpdate(pauseUpdateName);
const resumeUpdate = defineUpdate(resumeUpdateName);

/** Keeps every worker busy, and lets a person's cancellation leave little that goes on. */
const windowSize = 20;
/** The state that goes along is small, and nobody scrolls through thousands of events. */
const eventsPerRun = 300;

/**
 * Has every document of an organization embedded by another model, some at a time, each beside the vectors that are
 * found until the new ones are all there. One that fails keeps its old ones.
 */
export async function reembedOrganization(input: ReembedOrganizationInput): Promise<ReembedOrganizationResult> {
  const { orgId, model } = input;
  const start = { total: 0, done: 0, failed: 0, after: null, isEachLookedAt: false, jobIds: [], isPaused: false };
  const progress: ReembeddingProgress = input.progress ?? start;

  function show(): void {
    const { done, failed, total, isPaused, jobIds } = progress;
    const counts = `${done} of ${total} documents have vectors of ${model}, ${failed} failed, ${jobIds.length} are under way.`;
    if (isPaused) showStage('paused', `Paused: ${counts}\n\nThe update \`${resumeUpdateName}\` goes on.`);
    else showStage('reembed', counts);
  }

  async function setPaused(isPaused: boolean): Promise<void> {
    progress.isPaused = isPaused;
    show();
    await recordReembeddingPause({ orgId, isPaused });
  }
  const unless = (isPaused: boolean) => () => {
    if (progress.isPaused !== isPaused) return;
    throw ApplicationFailure.nonRetryable(`The run is ${isPaused ? '' : 'not '}paused.`, 'pause_unchanged');
  };
  setHandler(stageQuery, () => progress);
  setHandler(pauseUpdate, () => setPaused(true), {
    validator: unless(true),
    description: 'Begin with no more documents. What is under way goes on.',
  });
  setHandler(resumeUpdate, () => setPaused(false), { validator: unless(false), description: 'Go on with the others.' });
  const orPark = parking({
    parked: (error) => recordParkedReembedding({ orgId, error }),
    resumed: () => recordResumedReembedding({ orgId }),
  });

  async function openMore(): Promise<void> {
    const limit = windowSize - progress.jobIds.length;
    const { jobIds, settled, after } = await orPark(() =>
      openReembeddings({ orgId, model, after: progress.after, limit }),
    );
    progress.jobIds.push(...jobIds);
    progress.done += settled;
    progress.after = after ?? progress.after;
    progress.isEachLookedAt = after === null;
    progress.total = Math.max(progress.total, progress.done + progress.failed + progress.jobIds.length);
  }

  async function awaitSome(): Promise<void> {
    const { done, failed, total, jobIds } = progress;
    const ended = await orPark(() => awaitReembeddings({ orgId, jobIds, counts: { done, failed, total } }));
    const gone = new Set([...ended.done, ...ended.failed]);
    progress.jobIds = jobIds.filter((id) => !gone.has(id));
    progress.done += ended.done.length;
    progress.failed += ended.failed.length;
  }

  try {
    if (input.progress === undefined) progress.total = (await orPark(() => countReembeddings({ orgId, model }))).total;
    show();
    while (!progress.isEachLookedAt || progress.jobIds.length > 0) {
      if (!progress.isPaused && !progress.isEachLookedAt && progress.jobIds.length < windowSize) await openMore();
      show();
      if (progress.jobIds.length > 0) await awaitSome();
      else if (!progress.isEachLookedAt) await condition(() => !progress.isPaused);
      if (workflowInfo().historyLength > eventsPerRun) {
        await condition(allHandlersFinished);
        await continueAsNew<typeof reembedOrganization>({ ...input, progress });
      }
    }
    await condition(allHandlersFinished);
    const { done, failed } = progress;
    const total = done + failed;
    if (failed > 0) {
      const message = `${failed} of ${total} documents were not embedded, and are found by their old vectors.`;
      throw ApplicationFailure.nonRetryable(message, 'reembedding_incomplete');
    }
    await recordReembedding({ orgId, ...attemptOfJob(), counts: { done, failed, total } });
    showStage('done', `Done: ${done} documents have vectors of ${model}.`);
    return { done, failed, total };
  } catch (error) {
    throw await endOfRun(error, {
      cancelled: () => recordReembeddingCancellation({ orgId, ...attemptOfJob() }),
      failed: (failure) => recordReembeddingFailure({ orgId, ...attemptOfJob(), error: failure }),
    });
  }
}

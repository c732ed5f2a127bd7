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
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { documentBatchPolicy, jobUpdatePolicy, quickActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

const { countReembeddings } = proxyActivities<ReembeddingActivities>(quickActivityPolicy);
const { openReembeddings, awaitReembeddings } = proxyActivities<ReembeddingActivities>(documentBatchPolicy);
const {
  recordReembeddingPause,
  recordReembedding,
  recordParkedReembedding,
  recordResumedReembedding,
  recordReembeddingFailure,
  recordReembeddingCancellation,
} = proxyActivities<ReembeddingActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<ReembeddingProgress>(stageQueryName);
const pauseUpdate = defineUpdate(pauseUpdateName);
const resumeUpdate = defineUpdate(resumeUpdateName);

/** Concurrent documents: enough to keep workers busy, and few, so that a cancellation leaves little running. */
const concurrentDocuments = 20;
/** Continues as new after this many events, so that a history stays readable. */
const eventsPerRun = 300;

/**
 * Embeds all documents of an organization with another model, a few at a time. Searches use the old vectors of a
 * document until all new ones are stored; a document that fails keeps the old ones.
 */
export async function reembedOrganization(input: ReembedOrganizationInput): Promise<ReembedOrganizationResult> {
  const { orgId, model } = input;
  const start = { total: 0, done: 0, failed: 0, after: null, isEachLookedAt: false, jobIds: [], isPaused: false };
  const progress: ReembeddingProgress = input.progress ?? start;

  function show(): void {
    const { done, failed, total, isPaused, jobIds } = progress;
    const counts = `${done} of ${total} documents have vectors of ${model}, ${failed} failed, ${jobIds.length} are in progress.`;
    if (isPaused) showRunStage('paused', `Paused: ${counts}\n\nThe update \`${resumeUpdateName}\` resumes the run.`);
    else showRunStage('reembed', counts);
  }

  async function setPaused(isPaused: boolean): Promise<void> {
    progress.isPaused = isPaused;
    show();
    await recordReembeddingPause({ orgId, isPaused });
  }
  const rejectIfPaused = (isPaused: boolean) => () => {
    if (progress.isPaused !== isPaused) return;
    throw ApplicationFailure.nonRetryable(`The run is ${isPaused ? '' : 'not '}paused.`, 'pause_unchanged');
  };
  setHandler(stageQuery, () => progress);
  setHandler(pauseUpdate, () => setPaused(true), {
    validator: rejectIfPaused(true),
    description: 'Start no further documents. Documents in progress continue.',
  });
  setHandler(resumeUpdate, () => setPaused(false), {
    validator: rejectIfPaused(false),
    description: 'Continue with the other documents.',
  });
  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedReembedding({ orgId, error }),
    resumed: () => recordResumedReembedding({ orgId }),
  });

  async function startMore(): Promise<void> {
    const limit = concurrentDocuments - progress.jobIds.length;
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
      if (!progress.isPaused && !progress.isEachLookedAt && progress.jobIds.length < concurrentDocuments)
        await startMore();
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
    await recordReembedding({ orgId, ...readJobAttemptOfRun(), counts: { done, failed, total } });
    showRunStage('done', `Done: ${done} documents have vectors of ${model}.`);
    return { done, failed, total };
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordReembeddingCancellation({ orgId, ...readJobAttemptOfRun() }),
      failed: (failure) => recordReembeddingFailure({ orgId, ...readJobAttemptOfRun(), error: failure }),
    });
  }
}

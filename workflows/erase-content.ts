import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { ErasureActivities } from '#activities/erasure.ts';
import {
  type EraseContentInput,
  type EraseContentResult,
  type EraseSliceInput,
  type EraseSliceResult,
  type ErasureProgress,
  type ErasureStage,
  sqlOnlyErasureStages,
} from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { documentBatchPolicy, jobUpdatePolicy, quickActivityPolicy, slowActivityPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

// Stopping the runs needs a long timeout, because a parser may run for another minute.
const { stopWork } = proxyActivities<ErasureActivities>(slowActivityPolicy);
const { eraseDocuments, eraseRows } = proxyActivities<ErasureActivities>(documentBatchPolicy);
const { forgetLeaver } = proxyActivities<ErasureActivities>(quickActivityPolicy);
const { recordErasure, recordParkedErasure, recordResumedErasure, recordErasureFailure } =
  proxyActivities<ErasureActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<ErasureProgress>(stageQueryName);

/** Continues as new after this many events, so that a history stays readable. */
const eventsPerRun = 300;

/**
 * Stops the workflows of a deleted user or organization, waits until the erasure is due, and erases the data that no
 * other user can read. Cannot be cancelled.
 */
export async function eraseContent(input: EraseContentInput): Promise<EraseContentResult> {
  const of = { orgId: input.orgId, userId: input.userId };
  const whose = input.userId === null ? 'the organization' : 'the user';
  const progress: ErasureProgress = input.progress ?? { stage: 'queued', erased: 0 };
  progress.byKind ??= {};
  const { byKind } = progress;
  setHandler(stageQuery, () => progress);

  const orPark = createParkableStepRunner({
    parked: (error) => recordParkedErasure({ ...of, error }),
    resumed: () => recordResumedErasure(of),
  });

  function enter(stage: ErasureStage, details: string): void {
    progress.stage = stage;
    showRunStage(stage, details);
  }

  async function untilDue(): Promise<void> {
    const waitMs = Date.parse(input.dueAt) - Date.now();
    if (waitMs <= 0) return;
    enter('wait', `Waiting until ${input.dueAt}. Then the data of ${whose} is erased.`);
    await sleep(waitMs);
  }

  async function erase(
    stage: 'documents' | (typeof sqlOnlyErasureStages)[number],
    slice: (input: EraseSliceInput) => Promise<EraseSliceResult>,
  ): Promise<void> {
    for (let isMore = true; isMore; ) {
      enter(stage, `Erasing the ${stage} of ${whose}; ${progress.erased} items erased so far.`);
      const result = await orPark(() => slice({ ...of, erased: progress.erased }));
      progress.erased += result.erased;
      byKind[stage] = (byKind[stage] ?? 0) + result.erased;
      isMore = result.isMore;
      if (workflowInfo().historyLength > eventsPerRun) {
        await condition(allHandlersFinished);
        await continueAsNew<typeof eraseContent>({ ...input, progress });
      }
    }
  }

  await CancellationScope.nonCancellable(async () => {
    try {
      if (input.progress === undefined) {
        enter('stop', `Stopping the workflows of ${whose}.`);
        await orPark(() => stopWork(of));
        await untilDue();
      }
      for (let isMore = true; isMore; ) {
        await erase('documents', eraseDocuments);
        for (const what of sqlOnlyErasureStages) await erase(what, (slice) => eraseRows({ ...slice, what }));
        enter('forget', `Erasing the name of ${whose}; ${progress.erased} items erased.`);
        ({ isMore } = await orPark(() => forgetLeaver({ ...of, byKind })));
      }
      await condition(allHandlersFinished);
      await recordErasure({ ...of, ...readJobAttemptOfRun() });
    } catch (error) {
      throw await recordUnsuccessfulRunEnd(error, {
        cancelled: () => Promise.resolve(),
        failed: (failure) => recordErasureFailure({ ...of, ...readJobAttemptOfRun(), error: failure }),
      });
    }
  });
  progress.stage = 'done';
  showRunStage('done', `Done: ${progress.erased} items of ${whose} erased.`);
  return { erased: progress.erased, byKind };
}

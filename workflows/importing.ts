import { ChildWorkflowFailure, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  executeChild,
  isCancellation,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type {
  ImportCounts,
  ImportFileInput,
  ImportFileResult,
  ImportProgress,
  ImportRun,
  ImportRunInput,
  ImportSlice,
  ImportStage,
} from '#src/contracts/connectors.ts';
import { importWorkflowId, jobPartId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { importLine } from '#src/domain/documents/import-progress.ts';
import { attemptOfJob, endOfRun, failureOf, needsPerson, wasEndedByForce } from './failure.ts';
import { parking } from './parking.ts';
import { quick, record, remotePages } from './policies.ts';
import { attributesOfPart, showProgress, showStage, showStanding } from './visibility.ts';

const { beginImport, pendingFiles } = proxyActivities<ConnectorActivities>(quick);
const { listFiles, deleteMissing } = proxyActivities<ConnectorActivities>(remotePages);
const { finishImport, recordFileFailure } = proxyActivities<ConnectorActivities>(quick);
const { recordImportParked, recordImportResumed, recordImportFailure, recordImportCancellation } =
  proxyActivities<ConnectorActivities>(record);

const stageQuery = defineQuery<ImportProgress>(stageQueryName);

/** Providers limit the concurrent requests of an account. */
const filesAtOnce = 8;
/** Checked before a batch of 500 files, which adds at most nine events per file: a history stays below 6,000 events. */
const eventsPerRun = 500;

const nothing: ImportCounts = { total: 0, added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
const start: ImportProgress = { stage: 'queued', isListed: false, counts: nothing };

/**
 * Lists files, imports each in a child workflow, and deletes the documents of missing files if it is a sync. A file that
 * fails does not stop the others. An error that needs an operator or the user parks the run; a retry continues it.
 */
export async function runImport(
  { progress = start, ...run }: ImportRunInput,
  { mirrors }: { mirrors: boolean },
): Promise<ImportCounts> {
  setHandler(stageQuery, () => progress);
  const jobId = mirrors ? syncWorkflowId(run.connectionId) : importWorkflowId(run.runId);
  const orPark = parking({
    parked: (error) => recordImportParked({ ...run, error }),
    resumed: () => recordImportResumed(run),
  });

  function enter(stage: ImportStage, counts: ImportCounts): void {
    progress = { ...progress, stage, counts };
    showStage(stage, importLine(stage, counts));
  }

  async function continueInNewHistory(): Promise<void> {
    if (workflowInfo().historyLength <= eventsPerRun) return;
    await condition(allHandlersFinished);
    await continueAsNew<(input: ImportRunInput) => Promise<ImportCounts>>({ ...run, progress });
  }

  async function runSlice<Slice extends ImportSlice>(
    stage: ImportStage,
    work: (run: ImportRun) => Promise<Slice>,
  ): Promise<Slice> {
    await continueInNewHistory();
    const done = await orPark(() => work(run));
    enter(stage, done.counts);
    return done;
  }

  function count({ status }: ImportFileResult): void {
    const { counts } = progress;
    progress = { ...progress, counts: { ...counts, [status]: counts[status] + 1 } };
    showProgress(importLine('import', progress.counts));
  }

  /** @returns false if no file is pending */
  async function importBatch(): Promise<boolean> {
    const { numbers, counts } = await pendingFiles(run);
    enter('import', counts);
    const fileOf = (n: number) => ({ id: jobPartId(jobId, `file-${n}`), name: `File ${n} of ${counts.total}` });
    await inWindow(numbers, async (n) => count(await importOne({ ...run, n }, fileOf(n))));
    return numbers.length > 0;
  }

  async function listAndImport(): Promise<void> {
    if (!progress.isListed) {
      for (let isMore = true; isMore; ) isMore = (await runSlice('list', listFiles)).isMore;
      progress = { ...progress, isListed: true };
    }
    for (let isMore = true; isMore; ) {
      await continueInNewHistory();
      isMore = await orPark(importBatch);
    }
  }

  try {
    if (progress.stage === 'queued') {
      enter('list', nothing);
      await orPark(() => beginImport(run));
    }
    await listAndImport();
    for (let isMore = mirrors; isMore; ) {
      const deleted = await runSlice('delete', deleteMissing);
      isMore = deleted.isMore;
      if (deleted.mustListAgain) {
        progress = { ...progress, isListed: false };
        await listAndImport();
      }
    }
    await condition(allHandlersFinished);
    const counts = await finishImport({ ...run, ...attemptOfJob() });
    progress = { ...progress, stage: 'done', counts };
    showStage('done', importLine('done', counts));
    return counts;
  } catch (error) {
    const end = await endOfRun(error, {
      cancelled: () => recordImportCancellation({ ...run, ...attemptOfJob() }),
      failed: (failure) => recordImportFailure({ ...run, ...attemptOfJob(), error: failure }),
    });
    showStanding(importLine(progress.stage, progress.counts));
    throw end;
  }
}

/** Starts no further file after one has failed, and waits for those in progress. */
async function inWindow(numbers: readonly number[], work: (n: number) => Promise<void>): Promise<void> {
  const waiting = numbers.values();
  let isStopped = false;
  const workOn = async () => {
    for (const n of waiting) {
      await work(n).catch((error: unknown) => {
        isStopped = true;
        throw error;
      });
      if (isStopped) return;
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: filesAtOnce }, workOn));
  const failures = ended.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []));
  // An error that needs a person parks the run, so it takes precedence over errors that Temporal retries.
  const first = failures.find(isCancellation) ?? failures.find(needsPerson) ?? failures[0];
  if (first !== undefined) throw first;
}

async function importOne(
  input: ImportFileInput,
  { id, name }: { id: string; name: string },
): Promise<ImportFileResult> {
  for (;;) {
    try {
      return await executeChild<(input: ImportFileInput) => Promise<ImportFileResult>>('importFile', {
        workflowId: id,
        args: [input],
        staticSummary: name,
        typedSearchAttributes: attributesOfPart(),
      });
    } catch (error) {
      if (error instanceof ChildWorkflowFailure && wasEndedByForce(error)) return skip(input, error);
      // The child of a terminated attempt has not closed yet.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      await sleep('1 second');
    }
  }
}

/** Records a file whose child workflow was terminated as failed. */
async function skip(input: ImportRun & { n: number }, error: ChildWorkflowFailure): Promise<ImportFileResult> {
  const message = failureOf(error)?.message ?? 'Its workflow was terminated.';
  await recordFileFailure({ ...input, error: { code: 'run_terminated', message } });
  return { status: 'failed', code: 'run_terminated' };
}

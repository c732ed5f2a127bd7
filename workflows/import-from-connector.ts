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
  ImportSliceResult,
  ImportStage,
  QueueSyncInput,
  QueueSyncResult,
} from '#src/contracts/connectors.ts';
import { importWorkflowId, jobIdOfWorkflowPart, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import {
  needsOperatorAction,
  readJobAttemptOfRun,
  recordUnsuccessfulRunEnd,
  toRunFailure,
  wasChildWorkflowTerminated,
} from './failure.ts';
import { createParkableStepRunner } from './parking.ts';
import { fileTransferPolicy, jobUpdatePolicy, providerListingPolicy, quickActivityPolicy } from './policies.ts';
import { appendRunProgress, searchAttributesForChildWorkflow, showRunProgress, showRunStage } from './visibility.ts';

const { beginImport, pendingFiles } = proxyActivities<ConnectorActivities>(quickActivityPolicy);
const { listFiles, deleteMissing } = proxyActivities<ConnectorActivities>(providerListingPolicy);
const { fetchFile } = proxyActivities<ConnectorActivities>(fileTransferPolicy);
const { finishImport, recordFileFailure, queueSyncOfConnection } =
  proxyActivities<ConnectorActivities>(quickActivityPolicy);
const { recordImportParked, recordImportResumed, recordImportFailure, recordImportCancellation } =
  proxyActivities<ConnectorActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<ImportProgress>(stageQueryName);

/** Concurrent downloads: enough to hide a provider's latency, below a provider's limit per account. */
const concurrentFiles = 8;
/**
 * The workflow continues as new after this many events, checked between batches. A batch adds nine events per file, so
 * a history stays below 6,000.
 */
const eventsPerRun = 500;

const noFiles: ImportCounts = { total: 0, added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
const start: ImportProgress = { stage: 'queued', isListed: false, counts: noFiles };

export function importFromConnector(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { isSync: false });
}

export function syncConnection(input: ImportRunInput): Promise<ImportCounts> {
  return runImport(input, { isSync: true });
}

/**
 * Lists the files, imports each one as a child workflow, and for a sync deletes documents whose file is gone at the
 * provider. A failed file does not end the others. An error that needs an operator parks the run, which then continues
 * where it stopped.
 */
async function runImport(
  { progress = start, ...run }: ImportRunInput,
  { isSync }: { isSync: boolean },
): Promise<ImportCounts> {
  setHandler(stageQuery, () => progress);
  const jobId = isSync ? syncWorkflowId(run.connectionId) : importWorkflowId(run.runId);
  const orPark = createParkableStepRunner({
    parked: (error) => recordImportParked({ ...run, error }),
    resumed: () => recordImportResumed(run),
  });

  function enter(stage: ImportStage, counts: ImportCounts): void {
    progress = { ...progress, stage, counts };
    showRunStage(stage, importProgressLine(stage, counts));
  }

  async function continueAsNewIfLong(): Promise<void> {
    if (workflowInfo().historyLength <= eventsPerRun) return;
    await condition(allHandlersFinished);
    await continueAsNew<(input: ImportRunInput) => Promise<ImportCounts>>({ ...run, progress });
  }

  async function runSlice<Slice extends ImportSliceResult>(
    stage: ImportStage,
    work: (run: ImportRun) => Promise<Slice>,
  ): Promise<Slice> {
    await continueAsNewIfLong();
    const done = await orPark(() => work(run));
    enter(stage, done.counts);
    return done;
  }

  function count({ status }: ImportFileResult): void {
    const { counts } = progress;
    progress = { ...progress, counts: { ...counts, [status]: counts[status] + 1 } };
    showRunProgress(importProgressLine('import', progress.counts));
  }

  async function importBatch(): Promise<boolean> {
    const { numbers, counts } = await pendingFiles(run);
    enter('import', counts);
    const fileOf = (n: number) => ({
      id: jobIdOfWorkflowPart(jobId, `file-${n}`),
      name: `File ${n} of ${counts.total}`,
    });
    await runUntilFailure(numbers, async (n) => count(await importOne({ ...run, n }, fileOf(n))));
    return numbers.length > 0;
  }

  async function listAndImport(): Promise<void> {
    if (!progress.isListed) {
      for (let isMore = true; isMore; ) isMore = (await runSlice('list', listFiles)).isMore;
      progress = { ...progress, isListed: true };
    }
    for (let isMore = true; isMore; ) {
      await continueAsNewIfLong();
      isMore = await orPark(importBatch);
    }
  }

  try {
    if (progress.stage === 'queued') {
      enter('list', noFiles);
      await orPark(() => beginImport(run));
    }
    await listAndImport();
    for (let isMore = isSync; isMore; ) {
      const deleted = await runSlice('delete', deleteMissing);
      isMore = deleted.isMore;
      if (deleted.mustListAgain) {
        progress = { ...progress, isListed: false };
        await listAndImport();
      }
    }
    await condition(allHandlersFinished);
    const counts = await finishImport({ ...run, ...readJobAttemptOfRun() });
    progress = { ...progress, stage: 'done', counts };
    showRunStage('done', importProgressLine('done', counts));
    return counts;
  } catch (error) {
    const end = await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordImportCancellation({ ...run, ...readJobAttemptOfRun() }),
      failed: (failure) => recordImportFailure({ ...run, ...readJobAttemptOfRun(), error: failure }),
    });
    appendRunProgress(importProgressLine(progress.stage, progress.counts));
    throw end;
  }
}

/**
 * Imports files concurrently. After the first failure no further file is started; once the running imports have ended,
 * the error is thrown.
 */
async function runUntilFailure(numbers: readonly number[], work: (n: number) => Promise<void>): Promise<void> {
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
  const ended = await Promise.allSettled(Array.from({ length: concurrentFiles }, workOn));
  const failures = ended.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []));
  // Throws a cancellation first, then an error that needs an operator, then any other error.
  const first = failures.find(isCancellation) ?? failures.find(needsOperatorAction) ?? failures[0];
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
        typedSearchAttributes: searchAttributesForChildWorkflow(),
      });
    } catch (error) {
      if (error instanceof ChildWorkflowFailure && wasChildWorkflowTerminated(error)) return skipFile(input, error);
      // The start is repeated until the child workflow of an earlier, terminated attempt has closed.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      await sleep('1 second');
    }
  }
}

/** Counts a file as failed because an operator has terminated its run; the import then continues. */
async function skipFile(input: ImportRun & { n: number }, error: ChildWorkflowFailure): Promise<ImportFileResult> {
  const message = toRunFailure(error)?.message ?? 'The run of the file was terminated.';
  await recordFileFailure({ ...input, error: { code: 'run_terminated', message } });
  return { status: 'failed', code: 'run_terminated' };
}

/** Fetches a file unless its content was imported before. Starts its ingestion without waiting. */
export async function importFile(input: ImportFileInput): Promise<ImportFileResult> {
  showRunProgress('Downloading the file from the provider.');
  try {
    const result = await fetchFile(input);
    showRunProgress(result.code === null ? `Done: ${result.status}.` : `Failed: **${result.code}**.`);
    return result;
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => Promise.resolve(),
      failed: () => Promise.resolve(),
    });
  }
}

/** Runs on the schedule of a connection: queues its sync job, unless the sync is unnecessary or already running. */
export async function queueSync(input: QueueSyncInput): Promise<QueueSyncResult> {
  const result = await queueSyncOfConnection(input);
  showRunProgress(result.jobId === null ? `No sync was queued: ${result.reason}` : `Queued as \`${result.jobId}\`.`);
  return result;
}

function importProgressLine(
  stage: string,
  { total, added, updated, unchanged, deleted, failed }: ImportCounts,
): string {
  const done = added + updated + unchanged + failed;
  if (stage === 'list' || stage === 'queued') return `Listing files: ${total} so far.`;
  if (stage === 'delete') return `Imported ${done} of ${total} files; deleted ${deleted} that are gone.`;
  const verb = stage === 'done' ? 'Done' : 'Imported';
  const parts = [`${added} added`, `${updated} updated`, `${unchanged} unchanged`, `${deleted} deleted`];
  return `${verb} ${done} of ${total} files: ${parts.join(', ')}; ${failed} failed.`;
}

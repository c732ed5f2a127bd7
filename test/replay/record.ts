import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Context } from '@temporalio/activity';
import type { WorkflowHandle, WorkflowStartOptions } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { withHeartbeats } from '#activities/heartbeats.ts';
import { scoreNewRoundsSignalName } from '#src/contracts/alignment.ts';
import type { JobKind } from '#src/contracts/jobs.ts';
import { retryUpdateName, skipUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { stubAlignment, stubErasure, stubIngestion } from '#test/support/stub-activities.ts';
import { testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf } from '#test/support/workflow-run.ts';

/*
 * Records histories of the workflows over stub activities. Run by hand with the services of the tests, and only for a new
 * path through a workflow: `node test/replay/record.ts <new name> …`. A recorded history is never recorded again: it
 * stands for the runs that are open when a version is deployed. The list below has an example of each kind of path; add
 * the new one to it.
 */
const root = join(import.meta.dirname, '../..');

type Recording = Pick<WorkflowStartOptions, 'typedSearchAttributes'> & {
  workflow: string;
  args: unknown[];
  activities: object;
  /** What others do to the run. */
  meanwhile?: (run: WorkflowHandle) => Promise<void>;
};

/** How the application starts a workflow. */
const of = (workflow: string, jobKind: JobKind, input: object) => ({
  workflow,
  args: [{ orgId: 'org', ...input }],
  typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: jobKind }),
});
const ingestion = of('ingestDocument', 'ingest', { documentId: 'document', generation: 1 });
const alignment = of('scoreAlignment', 'alignment', { chatId: 'chat' });
const erasure = of('eraseContent', 'erase', { userId: null, dueAt: new Date(Date.now() + 5_000).toISOString() });

/** A step that runs until it is cancelled. */
const untilCancelled = () => withHeartbeats(() => Context.current().cancelled);

/** Cancels the run once this step runs. */
const cancelDuring = (step: string) => async (run: WorkflowHandle) => {
  await until(`${step} runs`, async () => {
    const { pendingActivities } = (await run.describe()).raw;
    return pendingActivities?.some(
      ({ activityType, lastStartedTime }) => activityType?.name === step && lastStartedTime,
    );
  });
  await run.cancel();
};

const throws = (code: ErrorCode) => async () => {
  throw appError(code);
};

/** Fails the first call of a step with an error that parks the run. */
function parkedOnce<Result>(code: ErrorCode, result: Result) {
  let calls = 0;
  return async () => {
    calls += 1;
    if (calls === 1) throw appError(code);
    return result;
  };
}

/** Retries, skips or cancels the run once it is parked. */
const whenParked = (act: (run: WorkflowHandle) => Promise<unknown>) => async (run: WorkflowHandle) => {
  await until('the run is parked', async () => (await attributeOf(run, 'ErrorCode')) !== undefined);
  await act(run);
};
const retry = whenParked((run) => run.executeUpdate(retryUpdateName));

/** More slices than one history holds. */
function slices(count: number) {
  let done = 0;
  return async () => {
    done += 1;
    return { chunksEmbedded: done, chunksLeft: count - done };
  };
}

/** Another round arrives with its nudge when the run was about to end. */
function nudgedAlignment(): Recording {
  const [ending, nudged] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const stub = stubAlignment(1, {
    recordAlignmentSuccess: () => {
      ending.resolve();
      return nudged.promise;
    },
  });
  const meanwhile = async (run: WorkflowHandle) => {
    await ending.promise;
    stub.arrive();
    await run.signal(scoreNewRoundsSignalName);
    nudged.resolve();
  };
  return { ...alignment, activities: stub.activities, meanwhile };
}

const recordings: Record<string, Recording> = {
  'ingest-document-succeeded': { ...ingestion, activities: stubIngestion().activities },
  'ingest-document-failed': {
    ...ingestion,
    activities: stubIngestion({ convertDocument: throws('encrypted_document') }).activities,
  },
  'ingest-document-parked-retried': {
    ...ingestion,
    activities: stubIngestion({ embedChunks: parkedOnce('model_not_configured', { chunksEmbedded: 3 }) }).activities,
    meanwhile: retry,
  },
  'ingest-document-parked-skipped': {
    ...ingestion,
    activities: stubIngestion({ embedChunks: throws('model_not_configured') }).activities,
    meanwhile: whenParked((run) => run.executeUpdate(skipUpdateName)),
  },
  'ingest-document-cancelled': {
    ...ingestion,
    activities: stubIngestion({ embedChunks: untilCancelled }).activities,
    meanwhile: cancelDuring('embedChunks'),
  },
  'ingest-document-continued': { ...ingestion, activities: stubIngestion({ embedChunks: slices(60) }).activities },
  'erase-content-waited': { ...erasure, activities: stubErasure(2).activities },
  'score-alignment-nudged': nudgedAlignment(),
};

async function record(name: string, { workflow, activities, meanwhile, ...start }: Recording): Promise<void> {
  const temporal = await testWorkers();
  await temporal.withWorker(activities, async (taskQueue) => {
    const run = await temporal.client.workflow.start(workflow, { ...start, workflowId: name, taskQueue });
    await meanwhile?.(run);
    await run.result().catch(() => undefined);
    let runId: string | null | undefined = run.firstExecutionRunId;
    for (let part = 1; runId; part += 1) {
      const history = await temporal.client.workflow.getHandle(name, runId).fetchHistory();
      const file = `${name}${part === 1 ? '' : `-${part}`}.json`;
      const path = join(import.meta.dirname, 'histories', file);
      // One that is kept is never recorded again.
      await writeFile(path, withoutMachine(historyToJSON(history)), { flag: 'wx' });
      runId = history.events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    }
  });
  await temporal.close();
}

/** Removes the paths and the process id of the machine that recorded it. */
function withoutMachine(history: string): string {
  return history.replaceAll(root, '').replaceAll(`${process.pid}@${hostname()}`, 'worker');
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(recordings, name));
if (names.length === 0 || unknown.length > 0) {
  throw new Error(`There is no recording ${unknown.join(', ')}. There are: ${Object.keys(recordings).join(', ')}`);
}
for (const [name, recording] of Object.entries(recordings)) {
  if (names.includes(name)) await record(name, recording);
}

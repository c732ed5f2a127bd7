import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { withHeartbeats } from '#activities/heartbeats.ts';
import type { ImportFileInput, ImportFileResult } from '#src/contracts/connectors.ts';
import { importWorkflowId, jobIdOfWorkflowPart, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { retryUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type Activities, type StubActivities, stubActivities, untilCancelled } from '#test/support/stub-activities.ts';
import { standingWorker, startRun } from '#test/support/test-workers.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

const noCounts = { total: 0, added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
const added: ImportFileResult = { status: 'added', code: null };

/** Imports of a connection with `total` new files. Each is pending until it is fetched or fails. */
function stubImport(total: number, fetchFile: (input: ImportFileInput) => Promise<ImportFileResult>, others = {}) {
  const ended = new Map<number, ImportFileResult['status']>();
  const counts = () => {
    const sums = { ...noCounts, total };
    for (const status of ended.values()) sums[status] += 1;
    return sums;
  };
  const replaced: Partial<Activities> = {
    listFiles: async () => ({ counts: counts(), isMore: false }),
    pendingFiles: async () => {
      const numbers = Array.from({ length: total }, (_, index) => index + 1);
      return { numbers: numbers.filter((n) => !ended.has(n)), counts: counts() };
    },
    fetchFile: async (input) => {
      const result = await fetchFile(input);
      ended.set(input.n, result.status);
      return result;
    },
    recordFileFailure: async ({ n }) => void ended.set(n, 'failed'),
    finishImport: async () => counts(),
  };
  return stubActivities({ ...replaced, ...others });
}

describe('an import or sync from a file provider', () => {
  let input = { orgId: 'org', connectionId: '', runId: '' };
  beforeEach(() => {
    input = { orgId: 'org', connectionId: uuidv7(), runId: uuidv7() };
  });
  function start(stub: StubActivities, workflow = 'importFromConnector') {
    const { connectionId, runId } = input;
    const workflowId = workflow === 'syncConnection' ? syncWorkflowId(connectionId) : importWorkflowId(runId);
    const typedSearchAttributes = searchAttributes({ OrgId: 'org', ConnectionId: connectionId });
    return startRun(workflow, stub, input, { workflowId, typedSearchAttributes });
  }
  const fileOf = async (n: number) =>
    (await standingWorker()).client.workflow.getHandle(jobIdOfWorkflowPart(importWorkflowId(input.runId), `file-${n}`));
  const numbersOf = ({ calls }: StubActivities) =>
    calls.flatMap(({ name, input: of }) => (name === 'fetchFile' ? [(of as ImportFileInput).n] : []));

  it('imports each file in its own child workflow, at most eight at a time, and counts the results', async () => {
    const open = new Set<number>();
    let most = 0;
    const released = Promise.withResolvers<void>();
    const stub = stubImport(20, async ({ n }) => {
      open.add(n);
      most = Math.max(most, open.size);
      await withHeartbeats(() => released.promise);
      open.delete(n);
      if (n === 7) return { status: 'failed', code: 'payload_too_large' };
      return { status: n % 2 === 0 ? 'unchanged' : 'added', code: null };
    });
    const run = await start(stub);
    await stub.untilCalled('fetchFile', 8);
    expect(open.size).equal(8);
    expect((await run.describe()).raw.pendingChildren).length(8);
    released.resolve();
    expect(await run.result()).deep.equal({ ...noCounts, total: 20, added: 9, unchanged: 10, failed: 1 });
    expect(most).equal(8);
    expect(await detailsOf(run)).contain('Done 20 of 20 files: 9 added, 0 updated, 10 unchanged, 0 deleted; 1 failed.');
    expect(await attributeOf(run, 'Stage')).equal('done');
    const file = await fileOf(7);
    expect(await file.result()).deep.equal({ status: 'failed', code: 'payload_too_large' });
    expect(await attributeOf(file, 'ConnectionId')).equal(input.connectionId);
    expect(await detailsOf(file)).contain('payload_too_large');
    expect(stub.timesOf('deleteMissing')).equal(0);
    expect(stub.calls.at(-1)).deep.equal({ name: 'finishImport', input: { ...input, attempt: 2 } });
  });

  it("is parked when the user's consent is revoked, starts no more files, and continues after a retry", async () => {
    let isRevoked = true;
    const stub = stubImport(20, async ({ n }) => {
      if (n >= 10 && isRevoked) throw appError('needs_reauth');
      return added;
    });
    const run = await start(stub);
    await stub.untilCalled('recordImportParked');
    expect(await attributeOf(run, 'ErrorCode')).equal('needs_reauth');
    const before = numbersOf(stub);
    expect(before.length).most(17);
    expect(await failureOf(await fileOf(10))).include({ type: 'needs_reauth' });
    isRevoked = false;
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).include({ added: 20, failed: 0 });
    const numbers = numbersOf(stub);
    for (let n = 1; n < 10; n++) expect(numbers.filter((each) => each === n)).length(1);
    expect(numbers.length - new Set(numbers).size).most(8);
  });

  it('retries a file if the provider throttles the download or cannot serve it', async () => {
    const attempts = new Map<number, number>();
    const stub = stubImport(3, async ({ n }) => {
      const { attempt } = Context.current().info;
      attempts.set(n, attempt);
      const code = ([undefined, 'provider_throttled', 'provider_unavailable'] as const)[attempt];
      if (code !== undefined) throw appError(code, { retryAfterSeconds: 0.01 });
      return added;
    });
    const run = await start(stub);
    expect(await run.result()).include({ added: 3 });
    expect([...attempts.values()]).deep.equal([3, 3, 3]);
    const { events } = await (await fileOf(1)).fetchHistory();
    const [step] = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []) ?? [];
    // The retry interval is a minute at most, so a file also survives an outage of an hour.
    expect(step?.retryPolicy?.maximumAttempts).above(60 + 6);
    expect(Number(step?.scheduleToCloseTimeout?.seconds ?? 0)).equal(0);
  });

  it('fails when the connection to the provider no longer exists', async () => {
    const gone = stubImport(3, async () => {
      throw appError('connection_not_found');
    });
    expect(await failureOf(await start(gone)))
      .instanceOf(ApplicationFailure)
      .include({ type: 'connection_not_found' });
    expect(gone.calls.at(-1)?.name).equal('recordImportFailure');
  });

  it('cancels the imports of its files when it is cancelled', async () => {
    const stub = stubImport(20, async ({ n }) => (n > 4 ? untilCancelled() : added));
    const run = await start(stub);
    await stub.untilCalled('fetchFile', 12);
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect((await (await fileOf(5)).describe()).status.name).equal('CANCELLED');
    expect(stub.calls.at(-1)).deep.equal({ name: 'recordImportCancellation', input: { ...input, attempt: 2 } });
  });

  it('lists the source again after a mass deletion is confirmed, because the source may have changed', async () => {
    const stub: StubActivities = stubImport(2, async () => added, {
      deleteMissing: async () => {
        if (stub.timesOf('recordImportResumed') === 0) throw appError('mass_deletion');
        const isListedAgain = stub.timesOf('listFiles') === 2;
        return { counts: noCounts, isMore: !isListedAgain, mustListAgain: !isListedAgain };
      },
    });
    const run = await start(stub, 'syncConnection');
    await stub.untilCalled('recordImportParked');
    expect(await attributeOf(run, 'ErrorCode')).equal('mass_deletion');
    await run.executeUpdate(retryUpdateName);
    await run.result();
    const steps = stub.names.filter((name) => name !== 'fetchFile');
    expect(steps.slice(-6)).deep.equal([
      ...['recordImportResumed', 'deleteMissing', 'listFiles', 'pendingFiles', 'deleteMissing', 'finishImport'],
    ]);
  });

  it('is queued as a job for the connection when the schedule of the sync fires', async () => {
    const jobId = `sync-${input.connectionId}`;
    const stub = stubActivities({ queueSyncOfConnection: async () => ({ jobId, reason: 'the schedule fired.' }) });
    const run = await start(stub, 'queueSync');
    expect(await run.result()).include({ jobId });
    expect(await detailsOf(run)).contain(jobId);
  });
});

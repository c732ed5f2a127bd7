import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { ConnectorActivities } from '#activities/connectors.ts';
import { heartbeating } from '#activities/heartbeating.ts';
import { retryUpdateName } from '#src/contracts/messages.ts';
import { importWorkflowId, jobPartId } from '#src/contracts/workflow-ids.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubConnectors } from '#test/support/stub-connectors.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('importFromConnector and syncConnection', function () {
  this.timeout(90_000);
  let temporal: TestWorkers;
  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  let input = { orgId: 'org', connectionId: '', runId: '' };
  beforeEach(() => {
    input = { orgId: 'org', connectionId: uuidv7(), runId: uuidv7() };
  });
  async function run(
    activities: ConnectorActivities,
    use: (run: WorkflowHandle) => Promise<void>,
    workflow = 'importFromConnector',
  ): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const handle = await temporal.client.workflow.start(workflow, {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [input],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({
          OrgId: 'org',
          ConnectionId: input.connectionId,
          JobKind: 'import',
        }),
      });
      await use(handle);
    });
  }
  const counts = { total: 0, added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
  const untilCancelled = () =>
    heartbeating(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
  const fileOf = (n: number) =>
    temporal.client.workflow.getHandle(jobPartId(importWorkflowId(input.runId), `file-${n}`));
  const numbersOf = (calls: { name: string; input: unknown }[]) =>
    calls.flatMap(({ name, input: of }) => (name === 'fetchFile' ? [(of as { n: number }).n] : []));

  it('has each file imported by a run of its own, eight at a time, and says what came of them', async () => {
    const open = new Set<number>();
    let most = 0;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const stub = stubConnectors(20, {
      fetchFile: async ({ n }) => {
        open.add(n);
        most = Math.max(most, open.size);
        await heartbeating(() => released);
        open.delete(n);
        if (n === 7) return { status: 'failed', code: 'payload_too_large' };
        return { status: n % 2 === 0 ? 'unchanged' : 'added', code: null };
      },
    });
    await run(stub.activities, async (handle) => {
      await until('eight are under way', async () => open.size === 8, 45_000);
      expect((await handle.describe()).raw.pendingChildren).length(8);
      release();
      expect(await handle.result()).deep.equal({ ...counts, total: 20, added: 9, unchanged: 10, failed: 1 });
      expect(most).equal(8);
      expect(await detailsOf(handle)).contain(
        'Done 20 of 20 files: 9 added, 0 updated, 10 unchanged, 0 deleted; 1 failed.',
      );
      expect(await attributeOf(handle, 'Stage')).equal('done');
      const file = fileOf(7);
      expect(await file.result()).deep.equal({ status: 'failed', code: 'payload_too_large' });
      expect(await attributeOf(file, 'ConnectionId')).equal(input.connectionId);
      expect(await detailsOf(file)).contain('payload_too_large');
      expect(stub.calls.some(({ name }) => name === 'deleteMissing')).equal(false);
      expect(stub.calls.at(-1)).deep.equal({ name: 'finishImport', input: { ...input, attempt: 2 } });
    });
  });

  it('parks when the consent has ended, begins with no more files, and goes on at the same place', async () => {
    let isRevoked = true;
    const stub = stubConnectors(20, {
      fetchFile: async ({ n }) => {
        if (n >= 10 && isRevoked) throw appError('needs_reauth');
        return { status: 'added', code: null };
      },
    });
    await run(stub.activities, async (handle) => {
      await until('it is parked', async () => (await attributeOf(handle, 'ErrorCode')) === 'needs_reauth', 45_000);
      const before = numbersOf(stub.calls);
      expect(before.length).most(17);
      expect(await failureOf(fileOf(10))).include({ type: 'needs_reauth' });
      isRevoked = false;
      await handle.executeUpdate(retryUpdateName);
      expect(await handle.result()).include({ added: 20, failed: 0 });
      const numbers = numbersOf(stub.calls);
      for (let n = 1; n < 10; n++) expect(numbers.filter((each) => each === n)).length(1);
      expect(numbers.length - new Set(numbers).size).most(8);
    });
  });

  it('waits as long as the provider asks for, and while it is away', async () => {
    const attempts = new Map<number, number>();
    const stub = stubConnectors(3, {
      fetchFile: async ({ n }) => {
        const attempt = (attempts.get(n) ?? 0) + 1;
        attempts.set(n, attempt);
        if (attempt === 1) throw appError('provider_throttled', { retryAfterSeconds: 1 });
        if (attempt === 2) throw appError('provider_unavailable', { retryAfterSeconds: 1 });
        return { status: 'added', code: null };
      },
    });
    await run(stub.activities, async (handle) => {
      expect(await handle.result()).include({ added: 3 });
      expect([...attempts.values()]).deep.equal([3, 3, 3]);
      const { events } = await fileOf(1).fetchHistory();
      const [step] = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []) ?? [];
      // At most a minute lies between two attempts: an outage of an hour, which has no place in a test, passes.
      expect(Number(step?.retryPolicy?.maximumInterval?.seconds)).equal(60);
      expect(step?.retryPolicy?.maximumAttempts).above(60 + 6);
      expect(Number(step?.scheduleToCloseTimeout?.seconds ?? 0)).equal(0);
    });
  });

  it('goes on without a file whose run somebody has ended, and fails when the connection is gone', async () => {
    const stub = stubConnectors(3, {
      fetchFile: async ({ n }) => {
        if (n === 2) await untilCancelled();
        return { status: 'added', code: null };
      },
    });
    await run(stub.activities, async (handle) => {
      await until('it is fetched', async () => numbersOf(stub.calls).includes(2));
      await fileOf(2).terminate('It hangs.');
      expect(await handle.result()).include({ added: 2, failed: 1 });
    });
    const gone = stubConnectors(3, {
      fetchFile: async () => {
        throw appError('connection_not_found');
      },
    });
    await run(gone.activities, async (handle) => {
      expect(await failureOf(handle))
        .instanceOf(ApplicationFailure)
        .include({ type: 'connection_not_found' });
      expect(gone.calls.at(-1)?.name).equal('recordImportFailure');
    });
  });

  it('stops with its files when it is cancelled', async () => {
    const stub = stubConnectors(20, {
      fetchFile: async ({ n }) => {
        if (n > 4) await untilCancelled();
        return { status: 'added', code: null };
      },
    });
    await run(stub.activities, async (handle) => {
      await until('some hang', async () => numbersOf(stub.calls).length >= 12);
      await handle.cancel();
      expect(await failureOf(handle)).instanceOf(CancelledFailure);
      expect((await fileOf(5).describe()).status.name).equal('CANCELLED');
      expect(stub.calls.at(-1)).deep.equal({ name: 'recordImportCancellation', input: { ...input, attempt: 2 } });
    });
  });

  it('deletes what a sync finds missing, once somebody says that so many may go', async () => {
    let mayDelete = false;
    const stub = stubConnectors(2, {
      deleteMissing: async () => {
        if (!mayDelete) throw appError('mass_deletion');
        return { counts: { ...counts, deleted: 40 }, isMore: false, mustListAgain: false };
      },
    });
    await run(
      stub.activities,
      async (handle) => {
        await until('it is parked', async () => (await attributeOf(handle, 'ErrorCode')) === 'mass_deletion', 45_000);
        mayDelete = true;
        await handle.executeUpdate(retryUpdateName);
        await handle.result();
        expect(numbersOf(stub.calls)).length(2);
      },
      'syncConnection',
    );
  });

  it('lists and imports again once it was asked about deletions, since what is at the source may be other then', async () => {
    let asked = 0;
    const stub = stubConnectors(2, {
      deleteMissing: async () => {
        asked += 1;
        if (asked === 1) throw appError('mass_deletion');
        return { counts, isMore: asked === 2, mustListAgain: asked === 2 };
      },
    });
    await run(
      stub.activities,
      async (handle) => {
        await until('it is parked', async () => (await attributeOf(handle, 'ErrorCode')) === 'mass_deletion', 45_000);
        await handle.executeUpdate(retryUpdateName);
        await handle.result();
        const steps = stub.calls.map(({ name }) => name).filter((name) => name !== 'fetchFile');
        expect(steps.slice(-6)).deep.equal([
          ...['recordImportResumed', 'deleteMissing', 'listFiles', 'pendingFiles', 'deleteMissing', 'finishImport'],
        ]);
      },
      'syncConnection',
    );
  });

  it('is begun by a schedule through its job', async () => {
    const stub = stubConnectors(0);
    await run(
      stub.activities,
      async (handle) => {
        expect(await handle.result()).include({ jobId: `sync-${input.connectionId}` });
        expect(await detailsOf(handle)).contain(`sync-${input.connectionId}`);
      },
      'queueSync',
    );
  });
});

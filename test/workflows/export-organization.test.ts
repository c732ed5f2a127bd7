import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { ExportActivities } from '#activities/exports.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/messages.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubExports } from '#test/support/stub-exports.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('exportOrganization', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;
  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const of = { orgId: 'org', exportId: 'export' };
  async function run(activities: ExportActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const typedSearchAttributes = searchAttributes({ OrgId: 'org', JobKind: 'export' });
      const options = { workflowId: `test-${uuidv7()}`, taskQueue, args: [of], typedSearchAttributes };
      await use(await temporal.client.workflow.start('exportOrganization', { ...options, memo: { attempt: 2 } }));
    });
  }

  /** Whose second volume throws these, one after the other. */
  const failing = (...faults: AppError[]) =>
    stubExports(3, {
      writeVolume: async ({ number }) => {
        const fault = number === 2 ? faults.shift() : undefined;
        if (fault !== undefined) throw fault;
        return { records: 100, isMore: number < 3 };
      },
    });
  const namesOf = (calls: { name: string }[]) => calls.map(({ name }) => name);
  const eventually = (what: string, started: WorkflowHandle, update: string) =>
    until(what, () =>
      started.executeUpdate(update).then(
        () => true,
        () => false,
      ),
    );

  it('writes volume after volume, publishes them, and shows how far it is', async () => {
    const { activities, calls } = stubExports(3);
    await run(activities, async (started) => {
      expect(await started.result()).deep.equal({ volumes: 3, records: 300 });
      expect(calls).deep.equal([
        { name: 'countExport', input: of },
        { name: 'writeVolume', input: { ...of, number: 1, done: 0, total: 300 } },
        { name: 'writeVolume', input: { ...of, number: 2, done: 100, total: 300 } },
        { name: 'writeVolume', input: { ...of, number: 3, done: 200, total: 300 } },
        { name: 'publishExport', input: { ...of, records: 300 } },
        { name: 'recordExport', input: { ...of, attempt: 2 } },
      ]);
      expect(await started.query(stageQueryName)).include({ stage: 'done', volumes: 3 });
      expect(await attributeOf(started, 'Stage')).equal('done');
    });
  });

  it('goes on in a new history, where it counts and writes nothing twice', async () => {
    const { activities, calls } = stubExports(120);
    await run(activities, async (started) => {
      const first = (await started.describe()).runId;
      expect(await started.result()).deep.equal({ volumes: 120, records: 12_000 });
      expect((await started.describe()).runId).not.equal(first);
      expect(namesOf(calls).filter((name) => name === 'countExport')).length(1);
      expect(namesOf(calls).filter((name) => name === 'writeVolume')).length(120);
    });
  });

  it('writes one volume again where the store was away', async () => {
    const { activities, calls } = failing(appError('service_unavailable', { retryAfterSeconds: 1 }));
    await run(activities, async (started) => {
      expect(await started.result()).deep.equal({ volumes: 3, records: 300 });
      expect(namesOf(calls).filter((name) => name === 'writeVolume')).length(4);
    });
  });

  it('waits for a person where the store refuses us', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await run(activities, async (started) => {
      await until('it is parked', async () => (await attributeOf(started, 'ErrorCode')) === 'blob_store_refused');
      await eventually('it goes on', started, retryUpdateName);
      expect(await started.result()).deep.equal({ volumes: 3, records: 300 });
      expect(namesOf(calls)).include.members(['recordParkedExport', 'recordResumedExport', 'recordExport']);
    });
  });

  it('fails when it is skipped', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await run(activities, async (started) => {
      await eventually('it is skipped', started, skipUpdateName);
      expect(await failureOf(started))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(namesOf(calls).at(-1)).equal('recordExportFailure');
    });
  });

  it('fails once its admin is none any more', async () => {
    const { activities, calls } = failing(appError('forbidden'));
    await run(activities, async (started) => {
      expect(await failureOf(started))
        .instanceOf(ApplicationFailure)
        .property('type', 'forbidden');
      expect(namesOf(calls).at(-1)).equal('recordExportFailure');
      expect(await attributeOf(started, 'ErrorCode')).equal('forbidden');
    });
  });

  it('records that it was cancelled', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await run(activities, async (started) => {
      await until('it is parked', async () => namesOf(calls).includes('recordParkedExport'));
      await started.cancel();
      expect(await failureOf(started)).instanceOf(CancelledFailure);
      expect(namesOf(calls).at(-1)).equal('recordExportCancellation');
    });
  });
});

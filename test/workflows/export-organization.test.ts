import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { ExportActivities } from '#activities/exports.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubExports } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('exportOrganization', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  const of = { orgId: 'org', exportId: 'export' };
  const start = (activities: ExportActivities) =>
    worker.start('exportOrganization', activities, {
      args: [of],
      memo: { attempt: 2 },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'export' }),
    });

  /** Fails to write the second volume until the run is resumed. */
  function failing(fault: AppError) {
    const stub = stubExports(3, {
      writeVolume: async ({ number }) => {
        if (number === 2 && !namesOf(stub.calls).includes('recordResumedExport')) throw fault;
        return { records: 100, isMore: number < 3 };
      },
    });
    return stub;
  }
  const namesOf = (calls: { name: string }[]) => calls.map(({ name }) => name);

  it('writes one volume after the other, publishes them, and shows its progress', async () => {
    const { activities, calls } = stubExports(3);
    const run = await start(activities);
    expect(await run.result()).deep.equal({ volumes: 3, records: 300 });
    expect(calls).deep.equal([
      { name: 'countExport', input: of },
      { name: 'writeVolume', input: { ...of, number: 1, done: 0, total: 300 } },
      { name: 'writeVolume', input: { ...of, number: 2, done: 100, total: 300 } },
      { name: 'writeVolume', input: { ...of, number: 3, done: 200, total: 300 } },
      { name: 'publishExport', input: { ...of, records: 300 } },
      { name: 'recordExport', input: { ...of, attempt: 2 } },
    ]);
    expect(await run.query(stageQueryName)).include({ stage: 'done', volumes: 3 });
    expect(await attributeOf(run, 'Stage')).equal('done');
  });

  it('continues in a new history without counting or writing anything twice', async () => {
    const { activities, calls } = stubExports(120);
    const run = await start(activities);
    const first = (await run.describe()).runId;
    expect(await run.result()).deep.equal({ volumes: 120, records: 12_000 });
    expect((await run.describe()).runId).not.equal(first);
    expect(namesOf(calls).filter((name) => name === 'countExport')).length(1);
    expect(namesOf(calls).filter((name) => name === 'writeVolume')).length(120);
  });

  it('retries only the volume whose store was unavailable', async () => {
    const { activities, calls } = stubExports(3, {
      writeVolume: async ({ number }) => {
        if (number === 2) failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return { records: 100, isMore: number < 3 };
      },
    });
    const run = await start(activities);
    expect(await run.result()).deep.equal({ volumes: 3, records: 300 });
    expect(namesOf(calls).filter((name) => name === 'writeVolume')).length(4);
  });

  it('is parked when the store refuses access, and continues on retry', async () => {
    const { activities, calls, untilCalled } = failing(appError('blob_store_refused'));
    const run = await start(activities);
    await untilCalled('recordParkedExport');
    expect(await attributeOf(run, 'ErrorCode')).equal('blob_store_refused');
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).deep.equal({ volumes: 3, records: 300 });
    expect(namesOf(calls)).include.members(['recordParkedExport', 'recordResumedExport', 'recordExport']);
  });

  it('fails when an operator skips it', async () => {
    const { activities, calls, untilCalled } = failing(appError('blob_store_refused'));
    const run = await start(activities);
    await untilCalled('recordParkedExport');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(namesOf(calls).at(-1)).equal('recordExportFailure');
  });

  it('fails when the user who requested it is no longer an admin', async () => {
    const { activities, calls } = failing(appError('forbidden'));
    const run = await start(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'forbidden');
    expect(namesOf(calls).at(-1)).equal('recordExportFailure');
    expect(await attributeOf(run, 'ErrorCode')).equal('forbidden');
  });

  it('records that it was cancelled', async () => {
    const { activities, calls, untilCalled } = failing(appError('blob_store_refused'));
    const run = await start(activities);
    await untilCalled('recordParkedExport');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(namesOf(calls).at(-1)).equal('recordExportCancellation');
  });
});

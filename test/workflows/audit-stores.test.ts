import { WorkflowFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { withHeartbeats } from '#activities/heartbeats.ts';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import type { StoreAuditProgress, StoreAuditReport } from '#src/domain/documents/audit-report.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubStoreAudit } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf } from '#test/support/workflow-run.ts';

describe('auditStores', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const audit = (activities: StoreAuditActivities) =>
    worker.start('auditStores', activities, {
      args: [{ repair: true, graceSeconds: 60 }],
      typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
      memo: { summary: 'Compare the stores' },
    });

  it('checks the pages of each pass in order and returns the totals', async () => {
    const { activities, pages } = stubStoreAudit(3);
    const run = await audit(activities);
    const report: StoreAuditReport = await run.result();
    expect(report).deep.equal({
      checked: { points: 1, documents: 30, blobs: 1, deletions: 1 },
      findings: { missing_points: { found: 1, repaired: 1, first: ['document-1'] } },
    });
    expect(pages.map(({ pass, after }) => `${pass} ${after ?? ''}`.trim())).deep.equal([
      ...['points', 'documents', 'documents 2', 'documents 3', 'blobs', 'deletions'],
    ]);
    expect(pages.every((page) => page.repair && page.graceSeconds === 60)).equal(true);
    expect(await run.query<StoreAuditProgress>(stageQueryName)).deep.equal({ pass: null, after: null, report });
    expect(await attributeOf(run, 'Stage')).equal('done');
    expect(await detailsOf(run)).match(/^30 documents/);
  });

  it('retries a page that failed and continues with the next', async () => {
    const { activities, pages } = stubStoreAudit(2);
    const auditPage: StoreAuditActivities['auditPage'] = async (input) => {
      if (input.pass === 'blobs') failFirstAttempt(new Error('the disk is busy'));
      return activities.auditPage(input);
    };
    const run = await audit({ auditPage });
    expect((await run.result()).checked).deep.equal({ points: 1, documents: 20, blobs: 1, deletions: 1 });
    expect(pages).length(5);
  });

  it('continues in a new history when there are very many pages', async () => {
    const { activities, pages } = stubStoreAudit(80);
    const run = await audit(activities);
    expect((await run.result()).checked.documents).equal(800);
    expect(pages).length(83);
    expect((await run.describe()).historyLength).lessThan(500);
    expect(await detailsOf(run)).match(/^Compare the stores\n\n800 documents/);
  });

  it('cancels the page in progress and checks no more pages', async () => {
    const { activities, names, untilCalled } = stubStoreAudit(1, {
      // The real heartbeat timer, which is what brings a cancellation to an activity in production.
      auditPage: () =>
        withHeartbeats(
          ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        ),
    });
    const run = await audit(activities);
    await untilCalled('auditPage');
    await run.cancel();
    const error: unknown = await run.result().catch((failure: unknown) => failure);
    expect(error).instanceOf(WorkflowFailedError).property('cause').instanceOf(CancelledFailure);
    expect(names).deep.equal(['auditPage']);
  });
});

import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { heartbeating } from '#activities/heartbeating.ts';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import type { AuditProgress, AuditReport } from '#src/domain/audit-report.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubStoreAudit } from '#test/support/stub-store-audit.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf } from '#test/support/workflow-run.ts';

describe('auditStores', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const audit = (activities: StoreAuditActivities, use: (run: WorkflowHandle) => Promise<void>, repair = true) =>
    temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start('auditStores', {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [{ repair, graceSeconds: 60 }],
        typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
        memo: { summary: 'Compare the stores' },
      });
      await use(run);
    });

  it('goes through the pages of each pass, and answers with the sum of them', async () => {
    const { activities, pages } = stubStoreAudit(3);
    await audit(activities, async (run) => {
      const report: AuditReport = await run.result();
      expect(report).deep.equal({
        checked: { points: 1, documents: 30, blobs: 1, deletions: 1 },
        findings: { missing_points: { found: 1, repaired: 1, first: ['document-1'] } },
      });
      expect(pages.map(({ pass, after }) => `${pass} ${after ?? ''}`.trim())).deep.equal([
        ...['points', 'documents', 'documents 2', 'documents 3', 'blobs', 'deletions'],
      ]);
      expect(pages.every((page) => page.repair && page.graceSeconds === 60)).equal(true);
      expect(await run.query<AuditProgress>(stageQueryName)).deep.equal({ pass: null, after: null, report });
      expect(await attributeOf(run, 'Stage')).equal('done');
      expect(await detailsOf(run)).match(/^30 documents/);
    });
  });

  it('repeats a page that failed, and goes on with the next', async () => {
    const { activities, pages } = stubStoreAudit(2);
    let failures = 1;
    const auditPage: StoreAuditActivities['auditPage'] = async (input) => {
      if (input.pass === 'blobs' && failures-- > 0) throw new Error('the disk is busy');
      return activities.auditPage(input);
    };
    await audit({ auditPage }, async (run) => {
      expect((await run.result()).checked).deep.equal({ points: 1, documents: 20, blobs: 1, deletions: 1 });
      expect(pages).length(5);
    });
  });

  it('goes on in a new history when there are very many pages', async () => {
    const { activities, pages } = stubStoreAudit(80);
    await audit(activities, async (run) => {
      expect((await run.result()).checked.documents).equal(800);
      expect(pages).length(83);
      expect((await run.describe()).historyLength).lessThan(500);
      expect(await detailsOf(run)).match(/^Compare the stores\n\n800 documents/);
    });
  });

  it('ends when it is cancelled, with the page that was under way', async () => {
    const { activities, pages } = stubStoreAudit(1);
    const auditPage: StoreAuditActivities['auditPage'] = (input) =>
      heartbeating(async ({ signal }) => {
        await activities.auditPage(input);
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      });
    await audit({ auditPage }, async (run) => {
      await until('the first page is under way', async () => pages.length === 1);
      await run.cancel();
      const error: unknown = await run.result().catch((failure: unknown) => failure);
      expect(error).instanceOf(WorkflowFailedError).property('cause').instanceOf(CancelledFailure);
      expect(pages).length(1);
    });
  });
});

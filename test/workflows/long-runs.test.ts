import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { ErasureActivities } from '#activities/erasure.ts';
import type { ExportActivities } from '#activities/exports.ts';
import { withHeartbeats } from '#activities/heartbeats.ts';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import type { StoreAuditProgress, StoreAuditReport } from '#src/domain/documents/audit-report.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type HistoryEvent, untilHistory } from '#test/support/history-events.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubErasure, stubExports, stubStoreAudit } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('runs that may continue in a new history:', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  describe('exportOrganization', () => {
    const of = { orgId: 'org', exportId: 'export' };
    const start = (activities: ExportActivities) =>
      worker.start('exportOrganization', activities, {
        args: [of],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'export' }),
      });

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
    });

    it('continues in a new history without counting or writing anything twice', async () => {
      const { activities, names } = stubExports(120);
      const run = await start(activities);
      expect(await run.result()).deep.equal({ volumes: 120, records: 12_000 });
      expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
      expect(names).deep.equal(['countExport', ...Array(120).fill('writeVolume'), 'publishExport', 'recordExport']);
    });
  });

  describe('eraseContent', () => {
    const erase = (activities: ErasureActivities, dueAt = '2026-01-01T00:00:00.000Z') =>
      worker.start('eraseContent', activities, {
        args: [{ orgId: 'org', userId: 'user', dueAt }],
        staticSummary: 'Erase the data of a deleted user',
        memo: { attempt: 1, startId: 'start', summary: 'Erase the data of a deleted user' },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'erase' }),
      });

    it('waits until its due date, shows this date, and ignores a cancellation', async () => {
      const dueAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
      const { activities, names } = stubErasure(1);
      const run = await erase(activities, dueAt);
      const isTimer = (event: HistoryEvent) => event.timerStartedEventAttributes;
      await untilHistory(run, (events) => events.some(isTimer));
      expect(await attributeOf(run, 'Stage')).equal('wait');
      expect(await detailsOf(run)).include(`Waiting until ${dueAt}`);
      await run.cancel();
      const events = await untilHistory(run, (all) => {
        const cancellation = all.findIndex((event) => event.workflowExecutionCancelRequestedEventAttributes);
        const later = cancellation < 0 ? [] : all.slice(cancellation);
        return later.some((event) => event.workflowTaskCompletedEventAttributes) && all;
      });
      const timers = events.flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
      expect(timers).length(1);
      expect(Number(timers[0]?.seconds)).within(29 * 86_400, 30 * 86_400);
      expect(await attributeOf(run, 'Stage')).equal('wait');
      expect((await run.describe()).status.name).equal('RUNNING');
      expect(names).deep.equal(['stopWork']);
      await run.terminate();
    });

    it('continues in a new history without repeating the wait or the step that stops other work', async () => {
      const { activities, names } = stubErasure(60);
      const run = await erase(activities);
      const byKind = { documents: 60 * 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
      expect(await run.result()).deep.equal({ erased: 60 * 20 + 5, byKind });
      expect(names.filter((name) => name === 'stopWork')).length(1);
      const latest = worker.client.workflow.getHandle(run.workflowId);
      expect((await latest.describe()).runId).not.equal(run.firstExecutionRunId);
      expect(await detailsOf(latest)).match(/^Erase the data of a deleted user\n\nDone/);
    });

    it('erases again when new content has appeared in the meantime', async () => {
      const { activities, names } = stubErasure(1, {
        // Each round erases one chat.
        forgetLeaver: async ({ byKind }) => ({ isMore: byKind?.chats === 1 }),
      });
      const run = await erase(activities);
      await run.result();
      const rows = ['chats', 'drafts', 'agents', 'folders', 'traces'].map((what) => `eraseRows ${what}`);
      const round = ['eraseDocuments', ...rows, 'forgetLeaver'];
      expect(names).deep.equal(['stopWork', ...round, ...round, 'recordErasure']);
    });
  });

  describe('auditStores', () => {
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

    it('retries a page that failed and continues with the next page', async () => {
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
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(names).deep.equal(['auditPage']);
    });
  });
});

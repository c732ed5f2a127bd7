import { Context } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { withHeartbeats } from '#activities/heartbeats.ts';
import type { AuditStorePageInput } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import type { StoreAuditReport } from '#src/domain/documents/audit-report.ts';
import {
  type Activities,
  failFirstAttempt,
  type StubActivities,
  stubActivities,
} from '#test/support/stub-activities.ts';
import { startRun } from '#test/support/test-workers.ts';
import { attributeOf, detailsOf, failureOf, type HistoryEvent, untilHistory } from '#test/support/workflow-run.ts';

describe('exportOrganization', () => {
  const of = { orgId: 'org', exportId: 'export' };
  const stubExport = (volumes: number) =>
    stubActivities({
      countExport: async () => ({ total: volumes * 100 }),
      writeVolume: async ({ number }) => ({ records: 100, isMore: number < volumes }),
    });

  it('writes one volume after the other, publishes them, and shows its progress', async () => {
    const stub = stubExport(3);
    const run = await startRun('exportOrganization', stub, of);
    expect(await run.result()).deep.equal({ volumes: 3, records: 300 });
    expect(stub.calls).deep.equal([
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
    const stub = stubExport(120);
    const run = await startRun('exportOrganization', stub, of);
    expect(await run.result()).deep.equal({ volumes: 120, records: 12_000 });
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(stub.names).deep.equal(['countExport', ...Array(120).fill('writeVolume'), 'publishExport', 'recordExport']);
  });
});

describe('eraseContent', () => {
  const summary = 'Erase the data of a deleted user';
  const options = { staticSummary: summary, memo: { summary } };
  const erase = (stub: StubActivities, dueAt = '2026-01-01T00:00:00.000Z') =>
    startRun('eraseContent', stub, { orgId: 'org', userId: 'user', dueAt }, options);

  it('waits until its due date, shows this date, and ignores a cancellation', async () => {
    const dueAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
    const stub = stubActivities();
    const run = await erase(stub, dueAt);
    await untilHistory(run, (events) => events.some((event) => event.timerStartedEventAttributes));
    expect(await attributeOf(run, 'Stage')).equal('wait');
    expect(await detailsOf(run)).include(`Waiting until ${dueAt}`);
    await run.cancel();
    const isCancellation = (event: HistoryEvent) => event.workflowExecutionCancelRequestedEventAttributes;
    const events = await untilHistory(run, (all) => {
      const later = all.slice(all.findIndex(isCancellation));
      return all.some(isCancellation) && later.some((event) => event.workflowTaskCompletedEventAttributes) && all;
    });
    const timers = events.flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
    expect(timers).length(1);
    expect(Number(timers[0]?.seconds)).within(29 * 86_400, 30 * 86_400);
    expect(await attributeOf(run, 'Stage')).equal('wait');
    expect((await run.describe()).status.name).equal('RUNNING');
    expect(stub.names).deep.equal(['stopWork']);
    await run.terminate();
  });

  it('continues in a new history without repeating the wait or the step that stops other work', async () => {
    const stub = stubActivities({
      eraseDocuments: async ({ erased }) => ({ erased: 20, isMore: erased + 20 < 60 * 20 }),
    });
    const run = await erase(stub);
    const byKind = { documents: 60 * 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
    expect(await run.result()).deep.equal({ erased: 60 * 20 + 5, byKind });
    expect(stub.timesOf('stopWork')).equal(1);
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(await detailsOf(run)).match(/^Erase the data of a deleted user\n\nDone/);
  });

  it('erases again when new content has appeared in the meantime', async () => {
    // Each round erases one chat.
    const stub = stubActivities({ forgetLeaver: async ({ byKind }) => ({ isMore: byKind?.chats === 1 }) });
    await (await erase(stub)).result();
    const rows = ['chats', 'drafts', 'agents', 'folders', 'traces'].map((what) => `eraseRows ${what}`);
    const round = ['eraseDocuments', ...rows, 'forgetLeaver'];
    expect(stub.names).deep.equal(['stopWork', ...round, ...round, 'recordErasure']);
  });
});

describe('auditStores', () => {
  const audit = (stub: StubActivities) =>
    startRun('auditStores', stub, { repair: true, graceSeconds: 60 }, { memo: { summary: 'Compare the stores' } });

  /** Pages of an audit, which finds one document without vectors. */
  const pagesOf =
    (documentPages: number): Activities['auditPage'] =>
    async ({ pass, after, repair }) => {
      if (pass !== 'documents') return { checked: 1, findings: {}, next: null };
      const page = Number(after ?? 1);
      const missing_points = { found: 1, repaired: repair ? 1 : 0, first: ['document-1'] };
      const next = page < documentPages ? String(page + 1) : null;
      return { checked: 10, findings: page === 1 ? { missing_points } : {}, next };
    };

  it('checks the pages of each pass in order and returns the totals', async () => {
    const stub = stubActivities({ auditPage: pagesOf(3) });
    const run = await audit(stub);
    const report: StoreAuditReport = await run.result();
    expect(report).deep.equal({
      checked: { points: 1, documents: 30, blobs: 1, deletions: 1 },
      findings: { missing_points: { found: 1, repaired: 1, first: ['document-1'] } },
    });
    const pages = stub.calls.map(({ input }) => input as AuditStorePageInput);
    expect(pages.map(({ pass, after }) => `${pass} ${after ?? ''}`.trim())).deep.equal([
      ...['points', 'documents', 'documents 2', 'documents 3', 'blobs', 'deletions'],
    ]);
    expect(pages.every((page) => page.repair && page.graceSeconds === 60)).equal(true);
    expect(await run.query(stageQueryName)).deep.equal({ pass: null, after: null, report });
    expect(await attributeOf(run, 'Stage')).equal('done');
    expect(await detailsOf(run)).match(/^30 documents/);
  });

  it('retries a page that failed and continues with the next page', async () => {
    const stub = stubActivities({
      auditPage: async (input) => {
        if (input.pass === 'blobs') failFirstAttempt(new Error('the disk is busy'));
        return pagesOf(2)(input);
      },
    });
    const { checked } = await (await audit(stub)).result();
    expect(checked).deep.equal({ points: 1, documents: 20, blobs: 1, deletions: 1 });
    expect(stub.names).length(6);
  });

  it('continues in a new history when there are very many pages', async () => {
    const stub = stubActivities({ auditPage: pagesOf(80) });
    const run = await audit(stub);
    expect((await run.result()).checked.documents).equal(800);
    expect(stub.names).length(83);
    expect((await run.describe()).historyLength).lessThan(500);
    expect(await detailsOf(run)).match(/^Compare the stores\n\n800 documents/);
  });

  it('cancels the page in progress and checks no more pages', async () => {
    const stub = stubActivities({
      // The real heartbeat timer, which is what brings a cancellation to an activity in production.
      auditPage: () => withHeartbeats(() => Context.current().cancelled),
    });
    const run = await audit(stub);
    await stub.untilCalled('auditPage');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(stub.names).deep.equal(['auditPage']);
  });
});

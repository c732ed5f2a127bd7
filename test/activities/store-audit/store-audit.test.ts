import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createStoreAuditActivities } from '#activities/store-audit.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import {
  advanceStoreAudit,
  formatAuditSummary,
  initialStoreAuditProgress,
} from '#src/domain/documents/audit-report.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { ingestionOn, runActivity, sentences, uploadFile } from '#test/support/ingestion-steps.ts';
import { putBlob } from '#test/support/put-blob.ts';
import { useIdleStack } from '#test/support/stack.ts';

describe('the audit of the stores', () => {
  const own = useIdleStack();
  before(() => registerSearchAttributes(own.container.temporal));
  afterEach('each test restores the stores', async () => {
    expect((await audit()).findings).deep.equal({});
  });

  const { runAll: ingest, openNext } = ingestionOn(own);
  /** Adds a readable document of a few chunks. */
  async function addDocument(word: string): Promise<IngestDocumentInput> {
    const of = await ingest(await uploadFile(own.ada, sentences(9, word)));
    await rowsOf('jobs', of).update({ status: 'succeeded', finishedAt: own.db.fn.now() });
    return of;
  }
  const rowsOf = (table: string, { documentId }: { documentId: string }) => own.db(table).where({ documentId });
  const updateDocument = ({ documentId: id }: { documentId: string }, columns: object) =>
    own.db('documents').where({ id }).update(columns);
  const jobOf = (id: string) => own.db('jobs').where({ id }).first();
  const addPoint = ({ documentId, generation }: Pick<IngestDocumentInput, 'documentId' | 'generation'>) => {
    const points = [{ id: uuidv7(), documentId, generation, vector: new Float32Array(384).fill(0.05) }];
    return createPgVectorStore(own.db).upsert({ orgId: own.ada.orgId, model: 'some-model', points });
  };
  const newKey = () => `${own.ada.orgId}/${uuidv7()}`;

  async function audit({ repair = false, force = false, graceSeconds = 0 } = {}) {
    const { auditPage } = createStoreAuditActivities(own.container);
    let progress = initialStoreAuditProgress;
    while (progress.pass !== null) {
      const { pass, after } = progress;
      const page = await runActivity(auditPage, { pass, after, repair, force, graceSeconds });
      progress = advanceStoreAudit(progress, pass, page);
    }
    return progress.report;
  }
  /** Expects exactly these findings in an audit without repair, and their repair in a second audit. */
  async function expectRepaired(findings: Record<string, string[]>): Promise<void> {
    for (const repair of [false, true]) {
      const expected = Object.entries(findings).map(([kind, ids]) => {
        return [kind, { found: ids.length, repaired: repair ? ids.length : 0, first: ids }];
      });
      expect((await audit({ repair })).findings).deep.equal(Object.fromEntries(expected));
    }
  }

  it('finds nothing in intact stores, reports how much it compared, and ignores differences that are still recent', async () => {
    const of = await addDocument('fresh');
    expect((await audit()).checked).deep.include({ points: 1, documents: 1, blobs: 1, deletions: 0 });
    const key = newKey();
    await putBlob(own.container.blobs, key, 'x');
    await updateDocument(of, { deletedAt: own.db.fn.now() });
    expect((await audit({ repair: true, graceSeconds: 3_600 })).findings).deep.equal({});
    await own.container.blobs.delete(key);
    await updateDocument(of, { deletedAt: null });
  });

  it('deletes many orphans at once only if forced, because the database may be the wrong one', async () => {
    const count = 25;
    for (let n = 0; n < count; n += 1) await addPoint({ documentId: uuidv7(), generation: 1 });
    const keys = Array.from({ length: count }, newKey);
    for (const key of keys) await putBlob(own.container.blobs, key, 'x');
    const { findings } = await audit({ repair: true });
    for (const kind of ['orphan_points', 'orphan_blob'] as const) {
      expect(findings[kind]).deep.include({ found: count, repaired: 0, heldBack: count });
      expect(findings[kind]?.first, 'the first of each kind').length(20);
    }
    const summary = formatAuditSummary({ ...initialStoreAuditProgress.report, findings });
    expect(summary).include(`${count} orphan_blob (0 repaired, ${count} not deleted`);
    for (const key of keys) expect(await own.container.blobs.exists(key)).equal(true);
    const forced = (await audit({ repair: true, force: true })).findings;
    for (const kind of ['orphan_points', 'orphan_blob'] as const) {
      expect(forced[kind]).deep.include({ found: count, repaired: count });
    }
  });

  it('deletes vectors and chunks of unused generations, and keeps the active and the newest generation', async () => {
    const of = await addDocument('generations');
    const second = await openNext(of);
    for (const each of [second, await openNext(second)]) await addPoint(each);
    await own.db.raw(
      `insert into jobs (id, org_id, kind, status, start, acl, created_by, dispatched_at)
       select ?, org_id, kind, 'parked', start, acl, created_by, now() from jobs where document_id = ?`,
      [`ingest-${of.documentId}-3`, of.documentId],
    );
    await expectRepaired({ orphan_points: [of.documentId], orphan_chunks: [of.documentId] });
    for (const table of ['chunkVectors', 'documentGenerations']) {
      expect(await rowsOf(table, of).distinct('generation').pluck('generation'), table).members([1, 3]);
    }
  });

  it('ingests a document again that lacks a vector or its first or last chunk, but only once', async () => {
    const [lost, gap, end] = [await addDocument('lost'), await addDocument('gap'), await addDocument('end')];
    const { id: chunkId } = await rowsOf('chunks', lost).where({ chunkIndex: 1 }).first('id');
    await own.db('chunkVectors').where({ chunkId }).delete();
    for (const [of, order] of [
      [gap, 'asc'],
      [end, 'desc'],
    ] as const) {
      const { id } = await rowsOf('chunks', of).orderBy('chunkIndex', order).first();
      await own.db('chunks').where({ id }).delete();
      await own.db('chunkVectors').where({ chunkId: id }).delete();
    }
    await expectRepaired({ missing_points: [lost.documentId], broken_chunks: [gap.documentId, end.documentId] });
    const job = await jobOf(`ingest-${lost.documentId}-2`);
    expect(job).include({ status: 'queued', kind: 'ingest' });
    expect(job.start).include({ bulk: true });
    // A second audit does not start another generation.
    expect((await audit({ repair: true })).findings.missing_points).deep.include({ found: 1, repaired: 0 });
    for (const document of [lost, gap, end]) await ingest({ ...document, generation: 2 });
  });

  it('deletes originals without a document, keeps those of older generations, and reports a missing one', async () => {
    const of = await addDocument('replaced');
    const key = newKey();
    await putBlob(own.container.blobs, key, 'newer');
    await expectRepaired({ orphan_blob: [key] });
    await putBlob(own.container.blobs, key, 'newer');
    await updateDocument(of, { blobKey: key });
    expect((await audit()).findings).deep.equal({});

    await own.container.blobs.delete(key);
    await rowsOf('chunkVectors', of).delete();
    const summary = { found: 1, repaired: 0, first: [of.documentId] };
    expect((await audit({ repair: true })).findings).deep.equal({ missing_blob: summary, missing_points: summary });
    await own.db('documents').where({ id: of.documentId }).delete();
    await audit({ repair: true });
  });

  it('queues a document deletion again if it has no job or its job failed', async () => {
    const [lost, failed] = [await addDocument('lost-deletion'), await addDocument('failed-deletion')];
    for (const each of [lost, failed]) await updateDocument(each, { deletedAt: own.db.fn.now(), acl: [] });
    await own.db.raw(
      `insert into jobs (id, org_id, kind, document_id, status, start, acl, created_by, dispatched_at, finished_at)
       select 'delete-' || document_id, org_id, 'delete', document_id, 'failed', start, acl, created_by, now(), now()
       from jobs where document_id = ?`,
      [failed.documentId],
    );
    await expectRepaired({ lost_deletion: [lost.documentId, failed.documentId] });
    for (const { documentId } of [lost, failed]) {
      const job = await jobOf(`delete-${documentId}`);
      expect(job).include({ status: 'queued', kind: 'delete', documentId, finishedAt: null });
      const input = { orgId: own.ada.orgId, documentId };
      expect(job.start).deep.include({ workflow: 'deleteDocument', input });
    }
  });
});

import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import { createStoreAuditActivities, type StoreAuditActivities } from '#activities/store-audit.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { AuditStorePageInput } from '#src/contracts/deletion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import {
  type AuditedStorePage,
  advanceStoreAudit,
  formatAuditSummary,
  initialStoreAuditProgress,
  type StoreAuditReport,
} from '#src/domain/documents/audit-report.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import type { Member } from '#test/support/client.ts';
import { putBlob } from '#test/support/put-blob.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const stepNames = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'] as const;
const vector = new Float32Array(384).fill(0.05);

describe('store audit', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let vectors: VectorStore;
  let ingestion: IngestionActivities;
  let activities: StoreAuditActivities;

  before(async () => {
    // Without workers, so that only the tests run activities.
    own = await startStack({}, { workers: false });
    await registerSearchAttributes(own.container.temporal);
    ada = await own.signUp();
    db = own.container.db;
    vectors = createPgVectorStore(db);
    ingestion = createIngestionActivities(own.container);
    activities = createStoreAuditActivities(own.container);
  });
  after(() => own.close());
  afterEach(async () => {
    // Each test restores the stores.
    expect((await audit()).findings).deep.equal({});
  });

  async function ingest(of: IngestDocumentInput): Promise<void> {
    for (const name of stepNames) {
      const step: (input: IngestDocumentInput) => Promise<unknown> = ingestion[name];
      await runActivity<IngestDocumentInput, unknown>(step, of);
    }
  }

  /** Adds a readable document of a few chunks. */
  async function addDocument(word: string): Promise<IngestDocumentInput> {
    const content = Array.from({ length: 9 }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');
    const fields = { target_tokens: '12', overlap_tokens: '0' };
    const { body } = await ada.upload('/documents', { name: `${word}.txt`, content }, 201, { fields });
    const of = { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
    await ingest(of);
    await db('jobs').where({ documentId: of.documentId }).update({ status: 'succeeded', finishedAt: db.fn.now() });
    return of;
  }

  async function audit({ repair = false, force = false, graceSeconds = 0 } = {}): Promise<StoreAuditReport> {
    let progress = initialStoreAuditProgress;
    while (progress.pass !== null) {
      const { pass, after } = progress;
      const request = { pass, after, repair, force, graceSeconds };
      const page = await runActivity<AuditStorePageInput, AuditedStorePage>(activities.auditPage, request);
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

  const addPoint = (of: Pick<IngestDocumentInput, 'documentId' | 'generation'>) =>
    vectors.upsert({ orgId: ada.orgId, model: 'some-model', points: [{ id: uuidv7(), vector, ...of }] });

  const blobKeyOf = async ({ documentId }: IngestDocumentInput): Promise<string> =>
    (await db('documents').where({ id: documentId }).first('blobKey')).blobKey;

  it('finds nothing in intact stores, and reports how much it compared', async () => {
    await addDocument('sound');
    const { checked } = await audit();
    expect(checked).deep.include({ points: 1, documents: 1, blobs: 1, deletions: 0 });
  });

  it('deletes vectors without a document', async () => {
    const documentId = uuidv7();
    await addPoint({ documentId, generation: 2 });
    await expectRepaired({ orphan_points: [documentId] });
    expect(await vectors.countGenerations([{ orgId: ada.orgId, documentId, generation: 2 }])).deep.equal([0]);
  });

  it('does not delete many orphans at once unless forced, because the database may be the wrong one', async () => {
    const points = Array.from({ length: 21 }, () => ({ documentId: uuidv7(), generation: 1 }));
    for (const of of points) await addPoint(of);
    const keys = Array.from({ length: 21 }, () => `${ada.orgId}/${uuidv7()}`);
    for (const key of keys) await putBlob(own.container.blobs, key, 'x');
    const held = { found: 21, repaired: 0, heldBack: 21 };
    const { findings } = await audit({ repair: true });
    expect(findings.orphan_points).deep.include(held);
    expect(findings.orphan_blob).deep.include(held);
    expect(formatAuditSummary({ ...initialStoreAuditProgress.report, findings })).include(
      '21 orphan_blob (0 repaired, 21 not deleted',
    );
    for (const key of keys) expect(await own.container.blobs.exists(key)).equal(true);
    const forced = { found: 21, repaired: 21 };
    const after = (await audit({ repair: true, force: true })).findings;
    expect(after.orphan_points).deep.include(forced);
    expect(after.orphan_blob).deep.include(forced);
  });

  it('deletes vectors and chunks of unused generations, and keeps the active and the newest', async () => {
    const of = await addDocument('generations');
    const row = await db('documentGenerations').where({ documentId: of.documentId }).first();
    const { ragConfig, ...columns } = row;
    for (const generation of [2, 3]) {
      await db('documentGenerations').insert({ ...columns, ragConfig: JSON.stringify(ragConfig), generation });
      await addPoint({ ...of, generation });
    }
    const jobId = `ingest-${of.documentId}-3`;
    await db.raw(
      `insert into jobs (id, org_id, kind, status, start, acl, created_by, dispatched_at)
       select ?, org_id, kind, 'parked', start, acl, created_by, now() from jobs where document_id = ?`,
      [jobId, of.documentId],
    );
    await db('documents').where({ id: of.documentId }).update({ generation: 3 });

    await expectRepaired({ orphan_points: [of.documentId], orphan_chunks: [of.documentId] });
    expect((await db('chunkVectors').where({ documentId: of.documentId }).distinct('generation')).length).equal(2);
    expect(await db('documentGenerations').where({ documentId: of.documentId }).pluck('generation')).members([1, 3]);
  });

  it('ignores differences that are younger than the grace period', async () => {
    const of = await addDocument('fresh');
    await putBlob(own.container.blobs, `${ada.orgId}/fresh`, 'x');
    await db('documents').where({ id: of.documentId }).update({ deletedAt: db.fn.now() });
    expect((await audit({ repair: true, graceSeconds: 3_600 })).findings).deep.equal({});
    await own.container.blobs.delete(`${ada.orgId}/fresh`);
    await db('documents').where({ id: of.documentId }).update({ deletedAt: null });
  });

  it('ingests a document with missing vectors again, once', async () => {
    const of = await addDocument('lost');
    const id = await db('chunks').where({ documentId: of.documentId, chunkIndex: 1 }).first('id');
    await db('chunkVectors').where({ chunkId: id.id }).delete();
    await expectRepaired({ missing_points: [of.documentId] });

    const next = { ...of, generation: 2 };
    const job = await db('jobs')
      .where({ id: `ingest-${of.documentId}-2` })
      .first();
    expect(job).include({ status: 'queued', kind: 'ingest' });
    expect(job.start).include({ bulk: true });
    // A second audit does not start another generation.
    expect((await audit({ repair: true })).findings.missing_points).deep.include({ found: 1, repaired: 0 });
    await ingest(next);
  });

  it('ingests a document again whose first or last chunk is missing', async () => {
    const [gap, end] = [await addDocument('gap'), await addDocument('end')];
    for (const [of, order] of [
      [gap, 'asc'],
      [end, 'desc'],
    ] as const) {
      const [chunk] = await db('chunks').where({ documentId: of.documentId }).orderBy('chunkIndex', order).limit(1);
      await db('chunks').where({ id: chunk.id }).delete();
      await db('chunkVectors').where({ chunkId: chunk.id }).delete();
    }
    await expectRepaired({ broken_chunks: [gap.documentId, end.documentId] });
    for (const document of [gap, end]) await ingest({ ...document, generation: 2 });
  });

  it('deletes originals without a document, and keeps those of older generations', async () => {
    const of = await addDocument('replaced');
    const key = `${ada.orgId}/${uuidv7()}`;
    await putBlob(own.container.blobs, key, 'newer');
    await expectRepaired({ orphan_blob: [key] });
    await putBlob(own.container.blobs, key, 'newer');
    await db('documents').where({ id: of.documentId }).update({ blobKey: key });
    expect((await audit()).findings).deep.equal({});
  });

  it('reports a document whose original is missing without trying to repair it', async () => {
    const of = await addDocument('bare');
    const key = await blobKeyOf(of);
    await own.container.blobs.delete(key);
    await db('chunkVectors').where({ documentId: of.documentId }).delete();
    const summary = { found: 1, repaired: 0, first: [of.documentId] };
    expect((await audit({ repair: true })).findings).deep.equal({ missing_blob: summary, missing_points: summary });
    await db('documents').where({ id: of.documentId }).delete();
  });

  it('queues a deletion again that has no job, or whose job failed', async () => {
    const [lost, failed] = [await addDocument('lost-deletion'), await addDocument('failed-deletion')];
    const ids = [lost.documentId, failed.documentId];
    await db('documents').whereIn('id', ids).update({ deletedAt: db.fn.now(), acl: [] });
    await db.raw(
      `insert into jobs (id, org_id, kind, document_id, status, start, acl, created_by, dispatched_at, finished_at)
       select 'delete-' || document_id, org_id, 'delete', document_id, 'failed', start, acl, created_by, now(), now()
       from jobs where document_id = ?`,
      [failed.documentId],
    );
    await expectRepaired({ lost_deletion: ids });
    for (const documentId of ids) {
      const job = await db('jobs')
        .where({ id: `delete-${documentId}` })
        .first();
      expect(job).include({ status: 'queued', kind: 'delete', documentId, finishedAt: null });
      expect(job.start).deep.include({ workflow: 'deleteDocument', input: { orgId: ada.orgId, documentId } });
    }
  });

  it('counts all findings and lists the first twenty of each kind', async () => {
    for (let count = 0; count < 25; count++) await addPoint({ documentId: uuidv7(), generation: 1 });
    const { orphan_points: summary } = (await audit({ repair: true, force: true })).findings;
    expect(summary).include({ found: 25, repaired: 25 });
    expect(summary?.first).length(20);
  });
});

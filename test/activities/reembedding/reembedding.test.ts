import { expect } from 'chai';
import { createReembeddingActivities, type ReembeddingActivities } from '#activities/reembedding.ts';
import { ingestWorkflowId as jobIdOf } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { runActivity as run, uploadFile } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';

describe('reembedding activities', () => {
  const models = ['old', 'new'].map((id) => ({ id, kind: 'embedding' as const }));
  const own = useIdleStack({ EMBEDDING_MODEL: 'old' }, (model) => model.offer(models));
  let ada: Member;
  let steps: ReembeddingActivities;
  beforeEach(async () => {
    ada = await own.signUp();
    steps = createReembeddingActivities(own.container);
  });

  const count = (model: string) => run(steps.countReembeddings, { orgId: ada.orgId, model });
  const open = (after: string | null = null, limit = 10) =>
    run(steps.openReembeddings, { orgId: ada.orgId, model: 'new', after, limit });

  /** Creates a document with vectors of the old model; ids ascend in the order of calls. */
  async function add(state: 'active' | 'failed' | 'queued' | 'stored' = 'active'): Promise<string> {
    const { documentId: id } = await uploadFile(ada, 'Some words.', { ingest: String(state !== 'stored') });
    const active = { activeGeneration: 1, activeEmbeddingModel: 'old' };
    if (state === 'active') await own.db('documents').where({ id }).update(active);
    const status = { active: 'succeeded', failed: 'failed', queued: 'queued', stored: 'none' }[state];
    if (state !== 'queued') await own.db('jobs').where({ documentId: id }).update({ status, finishedAt: new Date() });
    return id;
  }
  const documentOf = (id: string) => own.db('documents').where({ id }).first();
  const jobOf = (id: string) => own.db('jobs').where({ id }).first();

  it('request one new generation per document, even when an activity is repeated', async () => {
    const ids = [await add(), await add(), await add()];
    const jobIds = ids.map((id) => jobIdOf(id, 2));
    expect(await count('new')).deep.equal({ total: 3 });
    expect(await appErrorCode(count('gone')), 'a model that is no longer offered').equal('unknown_model');
    const first = await open(null, 2);
    expect(first).deep.equal({ jobIds: jobIds.slice(0, 2), settled: 0, after: ids[1] });
    expect(await open(null, 2)).deep.equal(first);
    expect(await open(first.after, 2)).deep.equal({ jobIds: jobIds.slice(2), settled: 0, after: null });
    for (const id of ids) {
      const document = await documentOf(id);
      expect(document).include({ generation: 2, activeGeneration: 1, activeEmbeddingModel: 'old' });
      expect(document.ragConfig.embedding).deep.equal({ model: 'new' });
      expect((await jobOf(jobIdOf(id, 2))).start).include({ bulk: true });
    }
  });

  it('set the new model on all documents without chunks, but ingest only those again whose ingestion was still open', async () => {
    const [stored, failed, queued] = [await add('stored'), await add('failed'), await add('queued')];
    expect(await open()).deep.equal({ jobIds: [jobIdOf(queued, 2)], settled: 2, after: null });
    for (const id of [stored, failed, queued]) expect((await documentOf(id)).ragConfig.embedding.model).equal('new');
    expect((await documentOf(failed)).generation).equal(1);
  });

  it('skip deleted documents and documents that already have the new model', async () => {
    const [deleted, changed] = [await add(), await add()];
    await ada.delete(`/documents/${deleted}`, 204);
    await open();
    await own.db('documents').where({ id: changed }).update({ activeGeneration: 2, activeEmbeddingModel: 'new' });
    expect(await open()).deep.equal({ jobIds: [], settled: 0, after: null });
  });

  it('report which ingestions have ended and which failed', async () => {
    const ends = ['succeeded', 'cancelled superseded', 'failed model_rejected', 'cancelled'];
    for (const _ of ends) await add();
    const { jobIds } = await open();
    for (const [index, end] of ends.entries()) {
      const [status, errorCode = null] = end.split(' ');
      await own.db('jobs').where({ id: jobIds[index] }).update({ status, errorCode, finishedAt: new Date() });
    }
    const counts = { done: 5, failed: 0, total: 9 };
    const ended = await run(steps.awaitReembeddings, { orgId: ada.orgId, jobIds, counts });
    expect(ended.done).have.members(jobIds.slice(0, 2));
    expect(ended.failed).have.members(jobIds.slice(2));
  });

  it('record no success if a document got another model in the meantime', async () => {
    const id = await add();
    const jobId = await own.container.reembedding.start({ orgId: ada.orgId, model: 'new' });
    await open();
    const setModel = `update documents set rag_config = jsonb_set(rag_config, '{embedding,model}', ?) where id = ?`;
    const set = (model: string) => own.db.raw(setModel, [JSON.stringify(model), id]);
    const record = () => run(steps.recordReembedding, { orgId: ada.orgId, counts: { done: 1, failed: 0, total: 1 } });
    await set('old');
    expect(await appErrorCode(record())).equal('reembedding_incomplete');
    expect(await jobOf(jobId)).not.include({ status: 'succeeded' });
    await set('new');
    await record();
    expect(await jobOf(jobId)).include({ status: 'succeeded' });
  });
});

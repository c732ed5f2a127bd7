import { expect } from 'chai';
import type { Knex } from 'knex';
import { createReembeddingActivities, type ReembeddingActivities } from '#activities/reembedding.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('reembedding activities', () => {
  let own: Stack;
  let model: ScriptedModel;
  let db: Knex;
  let ada: Member;
  let activities: ReembeddingActivities;

  before(async () => {
    model = await startScriptedModel();
    model.offer([
      { id: 'old', kind: 'embedding' },
      { id: 'new', kind: 'embedding' },
    ]);
    // Without workers, so that ingestions wait.
    own = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'old' }, { workers: false });
    db = own.container.db;
    activities = createReembeddingActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });
  beforeEach(async () => {
    ada = await own.signUp();
  });

  // Failures are expected here, and the library would log each of them.
  const run = <Input, Result>(activity: (input: Input) => Promise<Result>, input: Input) =>
    runActivity(activity, input);
  const open = (after: string | null, limit: number) =>
    run(activities.openReembeddings, { orgId: ada.orgId, model: 'new', after, limit });

  /** Creates a document with vectors of the old model; ids ascend in the order of calls. */
  async function add(state: 'active' | 'failed' | 'queued' | 'stored' = 'active'): Promise<string> {
    const fields = { ingest: String(state !== 'stored') };
    const { body } = await ada.upload('/documents', { name: 'a.txt', content: 'Some words.' }, 201, { fields });
    const { id } = fullDocumentSchema.parse(body);
    if (state === 'active')
      await db('documents').where({ id }).update({ activeGeneration: 1, activeEmbeddingModel: 'old' });
    const status = { active: 'succeeded', failed: 'failed', queued: 'queued', stored: 'none' }[state];
    if (state !== 'queued') await db('jobs').where({ documentId: id }).update({ status, finishedAt: new Date() });
    return id;
  }
  const job = (documentId: string, generation: number) => ingestWorkflowId(documentId, generation);
  const documentOf = (id: string) => db('documents').where({ id }).first();

  it('open each next generation once, also when repeated', async () => {
    const ids = [await add(), await add(), await add()];
    expect(await run(activities.countReembeddings, { orgId: ada.orgId, model: 'new' })).deep.equal({
      total: 3,
    });
    const first = await open(null, 2);
    expect(first).deep.equal({ jobIds: ids.slice(0, 2).map((id) => job(id, 2)), settled: 0, after: ids[1] });
    expect(await open(null, 2)).deep.equal(first);
    expect(await open(first.after, 2)).deep.equal({ jobIds: [job(ids[2] ?? '', 2)], settled: 0, after: null });
    for (const id of ids) {
      const { generation, activeGeneration, ragConfig, activeEmbeddingModel } = await documentOf(id);
      expect({ generation, activeGeneration, activeEmbeddingModel }).deep.equal({
        ...{ generation: 2, activeGeneration: 1, activeEmbeddingModel: 'old' },
      });
      expect(ragConfig.embedding).deep.equal({ model: 'new' });
      expect(
        (
          await db('jobs')
            .where({ id: job(id, 2) })
            .first()
        ).start,
      ).include({ bulk: true });
    }
  });

  it('change only the configuration of documents without chunks, and supersede running ingestions', async () => {
    const [stored, failed, queued] = [await add('stored'), await add('failed'), await add('queued')];
    expect(await open(null, 10)).deep.equal({ jobIds: [job(queued, 2)], settled: 2, after: null });
    for (const id of [stored, failed, queued]) expect((await documentOf(id)).ragConfig.embedding.model).equal('new');
    expect((await documentOf(failed)).generation).equal(1);
  });

  it('skip deleted documents and those that already have the model', async () => {
    const [deleted, changed] = [await add(), await add()];
    await ada.delete(`/documents/${deleted}`, 204);
    await open(null, 10);
    await db('documents').where({ id: changed }).update({ activeGeneration: 2, activeEmbeddingModel: 'new' });
    expect(await open(null, 10)).deep.equal({ jobIds: [], settled: 0, after: null });
  });

  it('report the ended and the failed ingestions', async () => {
    const ids = [await add(), await add(), await add(), await add()];
    const { jobIds } = await open(null, 10);
    const end = (id: string | undefined, status: string, errorCode: string | null) =>
      db('jobs').where({ id }).update({ status, errorCode, finishedAt: new Date() });
    await end(jobIds[0], 'succeeded', null);
    await end(jobIds[1], 'cancelled', 'superseded');
    await end(jobIds[2], 'failed', 'model_rejected');
    await end(jobIds[3], 'cancelled', null);
    const counts = { done: 5, failed: 0, total: ids.length + 5 };
    const ended = await run(activities.awaitReembeddings, { orgId: ada.orgId, jobIds, counts });
    expect(ended.done).have.members(jobIds.slice(0, 2));
    expect(ended.failed).have.members(jobIds.slice(2));
  });

  it('record no success if a document was set to another model meanwhile', async () => {
    const id = await add();
    const jobId = await own.container.reembedding.start({ orgId: ada.orgId, model: 'new' });
    const jobOf = async () => db('jobs').where({ id: jobId }).first('status');
    await open(null, 10);
    const counts = { done: 1, failed: 0, total: 1 };
    const set = (model: string) =>
      db('documents')
        .where({ id })
        .update({ ragConfig: db.raw(`jsonb_set(rag_config, '{embedding,model}', to_jsonb(?::text))`, [model]) });
    await set('old');
    const record = () => run(activities.recordReembedding, { orgId: ada.orgId, counts });
    expect(await appErrorCode(record())).equal('reembedding_incomplete');
    expect(await jobOf()).not.include({ status: 'succeeded' });
    await set('new');
    await record();
    expect(await jobOf()).include({ status: 'succeeded' });
  });

  it('reject a model that the provider no longer offers', async () => {
    const work = run(activities.countReembeddings, { orgId: ada.orgId, model: 'gone' });
    expect(await appErrorCode(work)).equal('unknown_model');
  });
});

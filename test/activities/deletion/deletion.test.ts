import type { MockActivityEnvironment } from '@temporalio/testing';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { createDeletionActivities, type DeletionActivities } from '#activities/deletion.ts';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { DeleteDocumentInput } from '#src/contracts/deletion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { remainsOf, tracesOf } from '#test/support/remains.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const deletionSteps = [
  'stopIngestion',
  'deleteVectors',
  'deleteChunks',
  'deleteOriginal',
  'forgetDocument',
  'recordDeletion',
] as const;
const ingestionSteps = [
  'parseDocument',
  'convertDocument',
  'chunkDocument',
  'embedChunks',
  'activateGeneration',
] as const;

const healthy = answerEmbeddings((text) => [text.length, text.charCodeAt(text.length - 4), 1], 'embedding-1');

describe('deletion activities', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let model: ScriptedModel;
  let deletion: DeletionActivities;
  let ingestion: IngestionActivities;

  before(async () => {
    // Workers would run the steps too.
    model = await startScriptedModel();
    model.behaveEmbedding(healthy);
    own = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'embedding-1' }, { workers: false });
    ada = await own.signUp();
    db = own.container.db;
    deletion = createDeletionActivities(own.container);
    ingestion = createIngestionActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });

  const remove = (name: (typeof deletionSteps)[number], of: DeleteDocumentInput) => runActivity(deletion[name], of);
  const ingest = (
    name: (typeof ingestionSteps)[number],
    of: IngestDocumentInput,
    environment?: MockActivityEnvironment,
  ) =>
    environment === undefined
      ? runActivity<IngestDocumentInput, unknown>(ingestion[name], of)
      : environment.run<[IngestDocumentInput], unknown, IngestionActivities[typeof name]>(ingestion[name], of);

  async function upload(word: string, count = 9): Promise<IngestDocumentInput> {
    const content = Array.from({ length: count }, (_, n) => `Sentence ${word} ${n} says something.`).join(' ');
    const form = { fields: { target_tokens: '12', overlap_tokens: '0' } };
    const { body } = await ada.upload('/documents', { name: 'note.txt', content }, 201, form);
    return { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }

  async function ingested(word: string): Promise<IngestDocumentInput> {
    const of = await upload(word);
    for (const name of ingestionSteps) await ingest(name, of);
    return of;
  }

  const pointsOf = ({ documentId }: DeleteDocumentInput) => db('chunkVectors').where({ documentId });

  /** Runs `embedChunks` and, before the first response of the embedding model, `meanwhile`. */
  async function embedWhile(of: IngestDocumentInput, meanwhile: () => Promise<void>): Promise<string> {
    const happened = Promise.withResolvers<void>();
    model.behaveEmbedding((response, body) => {
      model.behaveEmbedding(healthy);
      meanwhile()
        .then(() => healthy(response, body))
        .then(happened.resolve, happened.reject);
    });
    const code = await appErrorCode(ingest('embedChunks', of));
    await happened.promise;
    return code;
  }

  it('leave nothing when each of them runs twice', async () => {
    const of = await ingested('twice');
    const traces = await tracesOf(own, of.documentId);
    await ada.delete(`/documents/${of.documentId}`, 204);
    const left: string[][] = [];
    for (const name of deletionSteps) {
      await remove(name, of);
      const once = await remainsOf(own, traces);
      await remove(name, of);
      expect(await remainsOf(own, traces), name).deep.equal(once);
      left.push(once);
    }
    expect(left.at(-1)).deep.equal([]);
    expect(left.at(0)).include.members(['documents', 'chunks', 'chunkVectors', 'conversions', 'embeddings']);
    expect(
      await db('jobs')
        .where({ id: deletionWorkflowId(of.documentId) })
        .first(),
    ).include({ status: 'succeeded' });
  });

  it('leave nothing when each of them runs twice at the same time', async () => {
    const of = await ingested('together');
    const traces = await tracesOf(own, of.documentId);
    await ada.delete(`/documents/${of.documentId}`, 204);
    for (const name of deletionSteps) await Promise.all([remove(name, of), remove(name, of)]);
    expect(await remainsOf(own, traces)).deep.equal([]);
  });

  it('close the job of an ingestion that never began', async () => {
    const of = await upload('waiting');
    await ada.delete(`/documents/${of.documentId}`, 204);
    await remove('stopIngestion', of);
    const job = await db('jobs')
      .where({ id: ingestWorkflowId(of.documentId, 1) })
      .first();
    expect(job).include({ status: 'cancelled' });
  });

  it('keep a document that is not marked as deleted', async () => {
    const of = await ingested('kept');
    await remove('forgetDocument', of);
    expect(await db('documents').where({ id: of.documentId })).length(1);
  });

  it('leave no points of an ingestion step that ends late, at any stage of the deletion', async () => {
    for (const [index, done] of [
      deletionSteps.slice(0, 0),
      deletionSteps.slice(0, 2),
      deletionSteps.slice(0, 4),
      deletionSteps,
    ].entries()) {
      const of = await upload(`late ${index}`);
      for (const name of ingestionSteps.slice(0, 3)) await ingest(name, of);
      const code = await embedWhile(of, async () => {
        await ada.delete(`/documents/${of.documentId}`, 204);
        for (const name of done) await remove(name, of);
      });
      expect(code, `after ${done.at(-1)}`).equal('superseded');
      expect(await pointsOf(of), `after ${done.at(-1)}`).deep.equal([]);
    }
  });

  it('leave the active points when a late step of an older generation deletes its own', async () => {
    const old = await ingested('older');
    const seen = await pointsOf(old);
    const open = async (generation: number) => {
      const jobId = ingestWorkflowId(old.documentId, generation);
      await createGenerationsRepository(db).open({ ...old, generation, jobId }, { isRedo: false });
    };
    // The new name changes the texts of the chunks, so their embeddings are not cached.
    await db('documents').where({ id: old.documentId }).update({ name: 'renamed.txt' });
    await open(2);
    const late = { ...old, generation: 2 };
    for (const name of ingestionSteps.slice(0, 3)) await ingest(name, late);
    expect(await embedWhile(late, () => open(3))).equal('superseded');
    expect(await pointsOf(old)).deep.equal(seen);
  });

  it('leave the points of the active generation when an ingestion step runs twice', async () => {
    const of = await upload('doubled');
    for (const name of ingestionSteps.slice(0, 3)) await ingest(name, of);
    const code = await embedWhile(of, async () => {
      // The other attempt ends first, its generation becomes active, and a newer one is requested.
      await ingest('embedChunks', of);
      await ingest('activateGeneration', of);
      const jobId = ingestWorkflowId(of.documentId, 2);
      await createGenerationsRepository(db).open({ ...of, generation: 2, jobId }, { isRedo: false });
    });
    expect(code).equal('superseded');
    const chunks = await db('chunks').where({ documentId: of.documentId });
    expect(await pointsOf(of)).length(chunks.length);
  });
});

import { expect } from 'chai';
import { deleteChunksOfGenerations } from '#src/adapters/postgres/chunks.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

describe('an ingestion after an older database was restored', () => {
  let shared: Stack;
  let ada: Member;

  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  async function upload(name: string): Promise<{ id: string; jobId: string }> {
    const { body } = await ada.upload('/documents', { name, content: 'The fox is quick.' }, 201);
    const { id } = fullDocumentSchema.parse(body);
    const jobId = `ingest-${id}-1`;
    await untilJob(ada, jobId, 'succeeded');
    expect(await untilClosed(shared.container, jobId)).equal('completed');
    return { id, jobId };
  }

  /** Resets the database to its state before any step; Temporal keeps its history. */
  async function restore(id: string, job: Record<string, unknown>): Promise<void> {
    const { db } = shared.container;
    const range = { orgId: ada.orgId, documentId: id, from: 1, before: 2 };
    await db('documents').where({ id }).update({ activeGeneration: null });
    await db('chunkVectors').where({ documentId: id }).delete();
    await deleteChunksOfGenerations(db, range, async (trx) =>
      trx('documentGenerations')
        .where({ documentId: id })
        .update({ sourceFormat: null, conversionId: null, chunksTotal: null, chunksEmbedded: 0, activatedAt: null }),
    );
    await db('jobs')
      .where({ documentId: id })
      .update({ stage: null, startedAt: null, finishedAt: null, ...job });
  }

  async function expectReadable(id: string): Promise<void> {
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body);
    expect(items.map((chunk) => chunk.content)).deep.equal(['The fox is quick.']);
  }

  it('is repeated if its job was queued', async () => {
    const { id, jobId } = await upload('queued.txt');
    await restore(id, { status: 'queued', dispatchedAt: null });
    await untilJob(ada, jobId, 'succeeded');
    await expectReadable(id);
  });

  it('is repeated if its job was running', async () => {
    const { id, jobId } = await upload('running.txt');
    await restore(id, { status: 'running', stage: 'embed', checkedAt: new Date(0) });
    await untilJob(ada, jobId, 'succeeded');
    await expectReadable(id);
  });
});

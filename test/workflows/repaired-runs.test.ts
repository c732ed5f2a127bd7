import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { deleteChunksOfGenerations } from '#src/adapters/postgres/chunks.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { jobSchema } from '#src/modules/jobs/jobs.schema.ts';
import type { Member } from '#test/support/client.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

describe('an ingestion that an operator repairs', () => {
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;

  before(async () => {
    model = await startScriptedModel();
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl });
    ada = await stack.signUp();
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  it('runs again after the restore of an older database in which its job is still running', async () => {
    const { documentId, jobId } = await uploadText(ada, 'The fox is brown.');
    await untilJob(ada, jobId, 'succeeded');
    expect(await untilClosed(stack.container, jobId)).equal('completed');

    // The state of the database before any step; Temporal keeps its history.
    const { db } = stack.container;
    await db('documents').where({ id: documentId }).update({ activeGeneration: null });
    await db('chunkVectors').where({ documentId }).delete();
    const range = { orgId: ada.orgId, documentId, from: 1, before: 2 };
    const unmade = { sourceFormat: null, conversionId: null, chunksTotal: null, chunksEmbedded: 0, activatedAt: null };
    await deleteChunksOfGenerations(db, range, async (trx) =>
      trx('documentGenerations').where({ documentId }).update(unmade),
    );
    const unchecked = { status: 'running', stage: 'embed', startedAt: null, finishedAt: null, checkedAt: new Date(0) };
    await db('jobs').where({ documentId }).update(unchecked);

    await untilJob(ada, jobId, 'succeeded');
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${documentId}/chunks`, 200)).body);
    expect(items.map((chunk) => chunk.content)).deep.equal(['The fox is brown.']);
  });

  /** Resets the run like "reset to the first workflow task" in the Temporal UI. */
  async function reset(workflowId: string): Promise<void> {
    const { client, namespace } = stack.container.temporal;
    const run = client.workflow.getHandle(workflowId);
    const { events } = await run.fetchHistory();
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    await client.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId, runId: (await run.describe()).runId },
      reason: 'The provider works again.',
      requestId: randomUUID(),
      workflowTaskFinishEventId: first?.eventId ?? null,
    });
  }

  it('sets its job to running and then to succeeded when its failed run is reset', async () => {
    model.failEmbeddings(true, 400);
    const { jobId } = await uploadText(ada, 'The fox is quick.');
    expect((await untilJob(ada, jobId, 'failed')).last_error).property('code', 'model_rejected');

    // Slow, so that the test can see the job running.
    model.failEmbeddings(true, 503);
    await reset(jobId);
    const running = await until('the job runs again', async () => {
      const job = jobSchema.parse((await ada.get(`/jobs/${jobId}`, 200)).body);
      return job.status === 'running' && job;
    });
    // The run may be at the slow provider by now.
    expect(running.last_error?.code).not.equal('model_rejected');
    expect(running.finished_at).equal(null);
    model.failEmbeddings(false);
    await untilJob(ada, jobId, 'succeeded');
  });
});

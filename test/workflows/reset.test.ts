import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { jobSchema } from '#src/modules/jobs/jobs.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a failed run that an operator resets', () => {
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

  /** Resets the run like "reset to the first workflow task" in the Temporal UI. */
  async function reset(workflowId: string): Promise<void> {
    const { client, namespace } = stack.container.temporal;
    const run = client.workflow.getHandle(workflowId);
    const { events } = await run.fetchHistory();
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    await client.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId, runId: (await run.describe()).runId },
      reason: 'The provider is mended.',
      requestId: randomUUID(),
      workflowTaskFinishEventId: first?.eventId ?? null,
    });
  }

  it('sets its job to running and then to succeeded', async () => {
    model.failEmbeddings(true, 400);
    const { body } = await ada.upload('/documents', { name: 'note.txt', content: 'The fox is quick.' }, 201);
    const { id } = fullDocumentSchema.parse(body);
    const jobId = `ingest-${id}-1`;
    const failed = await untilJob(ada, jobId, 'failed');
    expect(failed.last_error).property('code', 'model_rejected');

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

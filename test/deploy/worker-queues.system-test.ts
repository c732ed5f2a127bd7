import { expect } from 'chai';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { readinessSchema } from '#src/http/server/service.routes.ts';
import { type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('worker processes that are configured for some queues', function () {
  this.timeout(180_000);
  let own: FaultCase;
  before(async () => {
    own = await startFaultCase();
  });
  after(() => own.close());

  const start = (...queues: string[]) => own.startWorker({ WORKER_QUEUES: queues.join(',') });
  const isReady = async () => {
    const response = await fetch(`${own.stack.baseUrl}/readyz`);
    const { checks } = readinessSchema.parse(await response.json());
    return { status: response.status, workers: checks.workers };
  };

  it('work only on those queues, and the API is ready once every queue has a worker', async () => {
    const { member } = own;
    const worker = await start(taskQueues.workflows, taskQueues.ingestion);
    expect(worker.log()).include('"queues":["workflows","ingestion"]');
    const { documentId, jobId } = await uploadText(member, 'What the first note says.');
    await untilJob(member, jobId, 'succeeded');
    expect(await isReady()).deep.equal({ status: 503, workers: false });

    await member.delete(`/documents/${documentId}`, 204);
    await start(...Object.values(taskQueues).filter((queue) => !['workflows', 'ingestion'].includes(queue)));
    await until('the API is ready', async () => (await isReady()).status === 200);
    await untilJob(member, deletionWorkflowId(documentId), 'succeeded');
  });

  it('end an open run of an older release, which began on the queue of its activities', async () => {
    const { client } = own.stack.container.temporal;
    const taskQueue = taskQueues.storeAudit;
    const args = [{ repair: false, graceSeconds: 60 }];
    const run = await client.workflow.start('auditStores', { workflowId: 'old-audit', taskQueue, args });
    const open = `TaskQueue = "${taskQueue}" AND ExecutionStatus = "Running"`;
    await until('the run is counted', async () => (await client.workflow.count(open)).count > 0);
    await start(taskQueue);
    expect(await run.result()).to.have.property('checked');
  });
});

import { expect } from 'chai';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { readinessSchema } from '#src/http/server/service.routes.ts';
import { type ServiceProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member } from '#test/support/client.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('worker processes that are configured for some queues', function () {
  this.timeout(180_000);
  let own: Stack;
  let ada: Member;
  const workers: ServiceProcess[] = [];

  before(async () => {
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
  });
  after(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await own.close();
  });

  const start = async (...queues: string[]) => {
    const worker = await startWorkerProcess(own, { WORKER_QUEUES: queues.join(',') });
    workers.push(worker);
    return worker;
  };
  const isReady = async () => {
    const response = await fetch(`${own.baseUrl}/readyz`);
    const { checks } = readinessSchema.parse(await response.json());
    return { status: response.status, workers: checks.workers };
  };

  it('work only on those queues, and the API is ready once every queue has a worker', async () => {
    const worker = await start(taskQueues.ingestion);
    expect(worker.log()).include(`"queues":["${taskQueues.ingestion}"]`);
    const { documentId, jobId } = await uploadText(ada, 'What the first note says.');
    await untilJob(ada, jobId, 'succeeded');
    expect(await isReady()).deep.equal({ status: 503, workers: false });

    await ada.delete(`/documents/${documentId}`, 204);
    await start(...Object.values(taskQueues).filter((queue) => queue !== taskQueues.ingestion));
    await until('the API is ready', async () => (await isReady()).status === 200);
    await untilJob(ada, deletionWorkflowId(documentId), 'succeeded');
  });
});

import { expect } from 'chai';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { readinessSchema } from '#src/http/server/service.routes.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { type ServiceProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const NOTES = 20;

describe('worker processes for some queues each', function () {
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
  async function upload(name: string) {
    const { body } = await ada.upload('/documents', { name, content: `# ${name}\n\nWhat ${name} says.` }, 201);
    const { id, parse_job_id } = fullDocumentSchema.parse(body);
    return { id, jobId: parseJobId(parse_job_id ?? '').workflowId };
  }
  const isReady = async () => {
    const response = await fetch(`${own.baseUrl}/readyz`);
    const { checks } = readinessSchema.parse(await response.json());
    return { status: response.status, workers: checks.workers };
  };

  it('work on these alone, and the API is ready once all queues have somebody', async () => {
    const worker = await start(taskQueues.ingestion);
    expect(worker.log()).include(`"queues":["${taskQueues.ingestion}"]`);
    const { id, jobId } = await upload('first.md');
    await untilRun(ada, jobId, 'succeeded');
    expect(await isReady()).deep.equal({ status: 503, workers: false });

    await ada.delete(`/documents/${id}`, 204);
    await start(...Object.values(taskQueues).filter((queue) => queue !== taskQueues.ingestion));
    await until('the API is ready', async () => (await isReady()).status === 200);
    await until('the document is deleted', async () => {
      const rows = await own.container.db('documents').where({ id });
      return rows.length === 0;
    });
  });

  it('sweep beside each other, so that each job is started once', async () => {
    await Promise.all([start(taskQueues.ingestion), start(taskQueues.ingestion)]);
    const jobs: string[] = [];
    for (let index = 0; index < NOTES; index += 1) jobs.push((await upload(`note-${index}.md`)).jobId);
    // As if no request had been able to start them: all of them are the sweepers'.
    await own.container.db('jobs').whereIn('id', jobs).update({ dispatchedAt: null });
    for (const jobId of jobs) await untilRun(ada, jobId, 'succeeded');
    const attempts = await own.container.db('jobs').whereIn('id', jobs).distinct('attempt');
    expect(attempts).deep.equal([{ attempt: 1 }]);
    expect(workers.map((worker) => worker.log()).join('')).not.include('a sweep failed');
  });
});

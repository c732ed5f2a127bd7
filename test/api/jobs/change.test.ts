import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import type { JobDto } from '#src/modules/jobs/jobs.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member, Reply } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { startStack } from '#test/support/stack.ts';
import { stoppedIngestion, systemFolder, untilStatus } from '#test/support/stopped-jobs.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('changing jobs', () => {
  let stack: ScriptedStack;
  let ada: Member;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.failEmbeddings(false));

  const stopped = (status: 'parked' | 'failed' | 'running') => stoppedIngestion(stack, ada, status);
  const move = async (jobId: string, how: 'retry' | 'skip' | 'cancel', status: number, member = ada) =>
    member.post(`/jobs/${jobId}/${how}`, {}, status);
  const jobOf = ({ body }: Reply) => body as JobDto;
  const codeOf = ({ body }: Reply) => problemSchema.parse(body).code;

  /** A parked deletion job. */
  async function parkedDeletion(): Promise<string> {
    const { jobId, documentId } = await stopped('failed');
    const id = `delete-${documentId}`;
    const { db } = stack.container;
    const job = await db('jobs').where({ id: jobId }).first();
    const start = { workflow: 'deleteDocument', input: { orgId: ada.orgId, documentId }, summary: '' };
    await db('jobs').insert({ ...job, id, kind: 'delete', status: 'parked', finishedAt: null, start });
    return id;
  }

  /** Refusals that the three routes share. */
  function refusesStrangers(how: 'retry' | 'skip' | 'cancel'): void {
    it('401: without a token', async () => {
      await stack.anonymous.post(`/jobs/ingest-x-1/${how}`, {}, 401);
    });

    it('403: for a caller who may only read what the job works on', async () => {
      const { jobId } = await stoppedIngestion(stack, ada, 'parked', await systemFolder(ada, 'org_root'));
      const grace = await aColleague(stack, ada);
      await grace.get(`/jobs/${jobId}`, 200);
      expect(codeOf(await move(jobId, how, 403, grace))).equal('forbidden');
    });

    it('404: for an unknown job or part, and for jobs that the caller may not read', async () => {
      const { jobId } = await stopped('parked');
      await move('ingest-x-1', how, 404);
      await move('%00', how, 404);
      await move(`${jobId}.unknown`, how, 404);
      await move(jobId, how, 404, await stack.signUp());
      await move(jobId, how, 404, await aColleague(stack, ada));
    });
  }

  describe('POST /jobs/{job_id}/retry', () => {
    it('202: starts the next attempt of a failed job', async () => {
      const { jobId } = await stopped('failed');
      const job = jobOf(await move(jobId, 'retry', 202));
      expect(job).deep.include({ id: jobId, attempt: 2, last_error: null });
      await untilJob(ada, jobId, 'succeeded');
    });

    it('202: retries a cancelled job', async () => {
      const { jobId } = await stopped('parked');
      await move(jobId, 'cancel', 202);
      await untilStatus(ada, jobId, 'cancelled');
      expect(jobOf(await move(jobId, 'retry', 202))).property('attempt', 2);
      await untilJob(ada, jobId, 'succeeded');
    });

    it('202: resumes a parked job in the same attempt', async () => {
      const { jobId } = await stopped('parked');
      const job = jobOf(await move(jobId, 'retry', 202));
      expect(job).deep.include({ attempt: 1, last_error: null });
      expect(job.status).not.equal('parked');
      await untilJob(ada, jobId, 'succeeded');
    });

    it('202: parks the job again if its error was not fixed', async () => {
      const { jobId } = await stopped('parked');
      const before = stack.model.calls.length;
      stack.model.failEmbeddings(true, 401);
      await move(jobId, 'retry', 202);
      const job = await untilStatus(ada, jobId, 'parked');
      expect(stack.model.calls.length).above(before);
      expect(job.last_error).property('code', 'model_not_configured');
    });

    it('202: the id of a part retries the whole run', async () => {
      const { jobId } = await stopped('failed');
      expect(jobOf(await move(`${jobId}.embed`, 'retry', 202))).include({ id: `${jobId}.embed`, attempt: 2 });
      await untilJob(ada, jobId, 'succeeded');
    });

    it('409: rejects a running job and a successful one', async () => {
      const { jobId } = await stopped('running');
      expect(codeOf(await move(jobId, 'retry', 409))).equal('job_open');
      stack.model.failEmbeddings(false);
      await untilJob(ada, jobId, 'succeeded');
      expect(codeOf(await move(jobId, 'retry', 409))).equal('job_finished');
    });

    it('409: rejects a superseded generation and a deleted document', async () => {
      const { jobId, documentId } = await stopped('failed');
      const document = stack.container.db('documents').where({ id: documentId });
      await document.clone().update({ generation: 2 });
      expect(codeOf(await move(jobId, 'retry', 409))).equal('superseded');
      await document.clone().update({ generation: 1, deletedAt: new Date() });
      expect(codeOf(await move(jobId, 'retry', 409))).equal('document_deleted');
    });

    it('accepts only one of two concurrent retries', async () => {
      const { jobId } = await stopped('failed');
      const replies = await Promise.all([1, 2].map(() => ada.raw(`/jobs/${jobId}/retry`, { method: 'POST' })));
      expect(replies.map((reply) => reply.status).sort()).deep.equal([202, 409]);
      expect(await untilJob(ada, jobId, 'succeeded')).property('attempt', 2);
    });

    refusesStrangers('retry');
  });

  describe('POST /jobs/{job_id}/skip', () => {
    it('202: ends a parked job as failed', async () => {
      const { jobId } = await stopped('parked');
      await move(`${jobId}.embed`, 'skip', 202);
      const job = await untilStatus(ada, jobId, 'failed');
      expect(job.last_error).property('code', 'skipped');
    });

    it('409: rejects a job that is not parked', async () => {
      const { jobId } = await stopped('failed');
      expect(codeOf(await move(jobId, 'skip', 409))).equal('job_not_parked');
    });

    it('409: rejects a deletion', async () => {
      expect(codeOf(await move(await parkedDeletion(), 'skip', 409))).equal('deletion_is_final');
    });

    refusesStrangers('skip');
  });

  describe('POST /jobs/{job_id}/cancel', () => {
    for (const status of ['running', 'parked'] as const) {
      it(`202: cancels a job that is ${status}`, async () => {
        const { jobId } = await stopped(status);
        await move(jobId, 'cancel', 202);
        await untilStatus(ada, jobId, 'cancelled');
      });
    }

    it('409: rejects a job that is over', async () => {
      const { jobId } = await stopped('failed');
      expect(codeOf(await move(jobId, 'cancel', 409))).equal('job_finished');
    });

    it('409: rejects a deletion', async () => {
      expect(codeOf(await move(await parkedDeletion(), 'cancel', 409))).equal('deletion_is_final');
    });

    refusesStrangers('cancel');
  });

  describe('POST /jobs/retry', () => {
    const retryAll = async (filters: object, member = ada) =>
      ((await member.post('/jobs/retry', filters, 202)).body as { count: number }).count;

    it('202: queues all stopped jobs that match', async () => {
      const member = await stack.signUp();
      const failed = await stoppedIngestion(stack, member, 'failed');
      const parked = await stoppedIngestion(stack, member, 'parked');
      const folder_id = await systemFolder(member, 'personal_root');
      expect(await retryAll({ error_code: 'no_such_code' }, member)).equal(0);
      expect(await retryAll({ folder_id, connection_id: crypto.randomUUID() }, member)).equal(0);
      expect(await retryAll({ folder_id }, member)).equal(2);
      for (const { jobId } of [failed, parked]) await untilStatus(member, jobId, 'succeeded');
      const { start } = await stack.container.db('jobs').where({ id: failed.jobId }).first();
      expect(start).property('bulk', true);
      expect(await retryAll({ folder_id }, member)).equal(0);
    });

    it('202: skips jobs that the caller may only read, and superseded ones', async () => {
      const member = await stack.signUp();
      const shared = await stoppedIngestion(stack, member, 'failed', await systemFolder(member, 'org_root'));
      const grace = await aColleague(stack, member);
      expect(await retryAll({ error_code: 'model_rejected' }, grace)).equal(0);
      await stack.container.db('documents').where({ id: shared.documentId }).update({ generation: 2 });
      expect(await retryAll({ error_code: 'model_rejected' }, member)).equal(0);
    });

    it('401: without a token', async () => {
      await stack.anonymous.post('/jobs/retry', { error_code: 'x' }, 401);
    });

    it('422: rejects a request without a filter or with an unknown one', async () => {
      for (const filters of [{}, { status: 'failed' }, { folder_id: 'x' }, { error_code: '' }]) {
        await ada.post('/jobs/retry', filters, 422);
      }
    });
  });

  it('while Temporal is unavailable, accepts retries and refuses skip and cancel with 503', async () => {
    const { jobId } = await stopped('parked');
    const { jobId: failed } = await stopped('failed');
    const cutOff = await startStack(
      { ...stack.settings, TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' },
      { workers: false },
    );
    try {
      const there = ada.at(cutOff.baseUrl);
      for (const how of ['skip', 'cancel']) {
        expect(codeOf(await there.post(`/jobs/${jobId}/${how}`, {}, 503))).equal('service_unavailable');
      }
      await there.post(`/jobs/${failed}/retry`, {}, 202);
      await there.post(`/jobs/${jobId}/retry`, {}, 202);
      // The sweeper of the workers, which still reach Temporal, resumes the run.
      for (const id of [failed, jobId]) await untilStatus(ada, id, 'succeeded');
    } finally {
      await cutOff.close();
    }
  });

  it('a job that is cancelled before its start never starts', async () => {
    // Workers register the search attributes. Without workers Temporal refuses the start.
    const idle = await startStack({}, { workers: false });
    try {
      const member = await idle.signUp();
      const paste = { name: 'note', content: 'The fox is quick.', source_format: 'text' };
      const { id } = (await member.post('/documents/paste', paste, 201)).body as { id: string };
      expect((await member.post(`/jobs/ingest-${id}-1/cancel`, {}, 202)).body).include({ status: 'cancelled' });
    } finally {
      await idle.close();
    }
  });
});

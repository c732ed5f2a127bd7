import { expect } from 'chai';
import { z } from 'zod';
import { jobListSchema, jobSchema } from '#src/modules/jobs/jobs.schema.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents, type StreamEvent } from '#test/support/event-stream.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { stoppedIngestion } from '#test/support/stopped-jobs.ts';

const failureSchema = z.strictObject({ detail: z.string(), code: z.string(), job: jobSchema });

describe('GET /jobs/{job_id}/events', () => {
  let stack: ScriptedStack;
  let ada: Member;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.failEmbeddings(false));

  async function open(jobId: string): Promise<AsyncIterableIterator<StreamEvent>> {
    const response = await ada.raw(`/jobs/${jobId}/events`);
    expect(response.status).equal(200);
    expect(response.headers.get('content-type')).match(/^text\/event-stream/);
    return readEvents(response);
  }
  const next = async (events: AsyncIterableIterator<StreamEvent>): Promise<StreamEvent> => (await events.next()).value;

  it('200: sends each change, and `done` at the end', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const events = await open(jobId);
    const first = await next(events);
    expect(first.event).equal('progress');
    expect(jobSchema.parse(first.data)).deep.include({ id: jobId, status: 'parked', stage: 'embed' });

    await ada.post(`/jobs/${jobId}/retry`, {}, 202);
    const rest = await collect(events);
    expect(rest.slice(0, -1).filter(({ event }) => event !== 'progress')).deep.equal([]);
    expect(rest.at(-1)?.event).equal('done');
    expect(jobSchema.parse(rest.at(-1)?.data)).deep.include({ id: jobId, status: 'succeeded' });
  });

  it('200: sends the error of a step that is retried, and clears it after progress', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'running');
    const events = await open(jobId);
    let job = jobSchema.parse((await next(events)).data);
    while (job.last_error === null) job = jobSchema.parse((await next(events)).data);
    expect(job).deep.include({ status: 'running', stage: 'embed' });
    expect(job.last_error).property('code', 'model_unavailable');
    const { items } = jobListSchema.parse((await ada.get('/jobs?error_code=model_unavailable', 200)).body);
    expect(items.map(({ id }) => id)).deep.equal([jobId]);

    stack.model.failEmbeddings(false);
    const last = (await collect(events)).at(-1);
    expect(jobSchema.parse(last?.data)).deep.include({ status: 'succeeded', last_error: null });
  });

  it('200: sends `error` for a failed job', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'failed');
    const events = await collect(await open(jobId));
    expect(events.map(({ event }) => event)).deep.equal(['error']);
    const { job, ...fault } = failureSchema.parse(events[0]?.data);
    expect(fault).deep.equal({ detail: 'The model service answered: 400 as scripted', code: 'model_rejected' });
    expect(job).property('status', 'failed');
  });

  it('200: sends `error` for a cancelled job', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const events = await open(jobId);
    await next(events);
    await ada.post(`/jobs/${jobId}/cancel`, {}, 202);
    const last = (await collect(events)).at(-1);
    expect(last?.event).equal('error');
    expect(last?.data).deep.include({ code: 'cancelled', detail: 'The job was cancelled.' });
  });

  it('200: ends the stream of a part before its run is over', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const [only] = await collect(await open(`${jobId}.chunk`));
    expect(only?.event).equal('done');
    expect(only?.data).include({ id: `${jobId}.chunk`, status: 'succeeded' });
  });

  it('200: ends when the caller loses access to the job', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const events = await open(jobId);
    await next(events);
    await stack.container.db('jobs').where({ id: jobId }).update({ acl: [] });
    const [last] = await collect(events);
    expect(last).deep.include({ event: 'error' });
    expect(last?.data).property('code', 'job_not_found');
  });

  it("200: ends when the caller's account is disabled", async () => {
    const grace = await stack.signUp('Grace');
    const { jobId } = await stoppedIngestion(stack, grace, 'parked');
    const events = readEvents(await grace.raw(`/jobs/${jobId}/events`));
    await next(events);
    await stack.container.db('users').where({ id: grace.userId }).update({ disabledAt: new Date() });
    const [last] = await collect(events);
    expect(last?.data).property('code', 'invalid_token');
  });

  it('401: without a token', async () => {
    await stack.anonymous.get('/jobs/ingest-x-1/events', 401);
  });

  it('404: for an unknown job and for one that the caller may not read', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'failed');
    await ada.get('/jobs/ingest-x-1/events', 404);
    await (await stack.signUp()).get(`/jobs/${jobId}/events`, 404);
  });
});

import { expect } from 'chai';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import {
  type JobDto,
  jobEventSchema,
  jobFeedEventSchema,
  jobListSchema,
  jobSchema,
  jobSummarySchema,
} from '#src/modules/jobs/jobs.schema.ts';
import {
  aColleague,
  aDocumentIn,
  anIngestedDocument,
  anUpload,
  aPublishedAgent,
  ask,
  rootOf,
} from '#test/support/builders.ts';
import { type Member, readEvents, type StreamEvent, sendJson, statusesOf } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack, stoppedIngestion, untilStatus } from '#test/support/scripted-stack.ts';
import { startStack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('jobs:', () => {
  let stack: ScriptedStack;
  let ada: Member;

  const get = async (jobId: string) => jobSchema.parse((await ada.get(`/jobs/${jobId}`, 200)).body);
  const stopped = (status: 'parked' | 'failed' | 'running') => stoppedIngestion(stack, ada, status);
  const move = async (jobId: string, how: 'retry' | 'skip' | 'cancel', status = 202): Promise<JobDto> =>
    (await ada.post(`/jobs/${jobId}/${how}`, {}, status)).body as JobDto;
  const refusalOf = async (jobId: string, how: 'retry' | 'skip' | 'cancel') => Object(await move(jobId, how, 409)).code;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.failEmbeddings(false));

  describe('GET /jobs, /jobs/summary and /jobs/{job_id}', () => {
    let good: string;
    let bad: string;
    let folderId: string;

    before(async () => {
      ada = await stack.signUp();
      folderId = await rootOf(ada, 'personal_root');
      good = (await anUpload(ada, { name: 'good.txt', content: 'The fox is quick. The dog is lazy.' })).id;
      bad = (await anUpload(ada, { name: 'bad.bin', content: '\x00\x01\x02\x03 not a document' })).id;
      await untilJob(ada, `ingest-${good}-1`, 'succeeded');
      await untilJob(ada, `ingest-${bad}-1`, 'failed');
    });

    const list = async (query: string, member = ada) =>
      jobListSchema.parse((await member.get(`/jobs?${query}`, 200)).body);
    const summary = async (query = '', member = ada) =>
      jobSummarySchema.parse((await member.get(`/jobs/summary?${query}`, 200)).body);

    it('show a successful ingestion, its steps, and a link to its run in the Temporal UI', async () => {
      const id = `ingest-${good}-1`;
      const { uiUrl, namespace } = stack.config.temporal;
      const job = await get(id);
      expect(job).include({ id, kind: 'ingest', stage: 'activate', attempt: 1, last_error: null });
      expect(job).include({ document_id: good, document_name: 'good.txt', chat_title: null });
      expect(job.progress).deep.equal({ done: 1, total: 1, unit: 'chunks' });
      expect(job.temporal_ui_url).equal(`${uiUrl}/namespaces/${namespace}/workflows/${id}`);
      expect([job.started_at, job.finished_at].map((at) => typeof at)).deep.equal(['string', 'string']);
      for (const stage of ['parse', 'convert', 'chunk', 'embed', 'activate']) {
        expect(await get(`${id}.${stage}`)).deep.include({ id: `${id}.${stage}`, status: 'succeeded', stage });
      }
    });

    it('show the error of a failed ingestion at its job, failed step and document, not at other steps', async () => {
      const id = `ingest-${bad}-1`;
      const { last_error } = await get(id);
      expect(last_error).property('code', 'unsupported_format');
      expect(await get(`${id}.parse`)).deep.include({ status: 'failed', last_error });
      expect(await get(`${id}.embed`)).deep.include({ status: 'cancelled', last_error: null });
      for (const unknown of [`${id}.unknown`, 'ingest-x-1', 'x'.repeat(300), '%00'])
        await ada.get(`/jobs/${unknown}`, 404);
      const { body } = await ada.get(`/documents/${bad}`, 200);
      expect(body).deep.include({ last_error, parse_job_id: `${id}.parse`, status: 'failed' });
      await aDocumentIn(ada, folderId, 'stored.txt');
      const { items } = documentListSchema.parse((await ada.get(`/documents?folder_id=${folderId}`, 200)).body);
      const states = Object.fromEntries(items.map((item) => [item.name, [item.status, item.last_error]]));
      const expected = {
        'good.txt': ['succeeded', null],
        'bad.bin': ['failed', last_error],
        'stored.txt': [null, null],
      };
      expect(states).deep.equal(expected);
    });

    it('name the document, chat or agent of a job, and no deleted document', async () => {
      const grace = await stack.signUp('Grace');
      const agentId = await aPublishedAgent(grace);
      stack.model.behave(() => ({ kind: 'answer', text: 'Hello, Grace.' }));
      const { chat_id } = await ask(grace, { agent_id: agentId, message: 'Hello' }, 201);
      await grace.patch(`/chat/${chat_id}`, { title: 'Greetings' }, 200);
      const note = await anIngestedDocument(grace, 'Note', 'A note.');
      const namesOf = async (kind: string) => {
        const [job] = (await list(`kind=${kind}`, grace)).items;
        return [job?.document_name, job?.chat_title, job?.agent_name];
      };
      expect(await namesOf('alignment')).deep.equal([null, 'Greetings', 'Loans']);
      expect(await namesOf('anchors')).deep.equal([null, null, 'Loans']);
      expect(await namesOf('ingest')).deep.equal(['Note', null, null]);
      await grace.delete(`/documents/${note}`, 204);
      expect(await namesOf('ingest')).deep.equal([null, null, null]);
    });

    it('list and count the readable jobs by each filter, newest first, in pages', async () => {
      const idsOf = ({ items }: Awaited<ReturnType<typeof list>>) => items.map(({ document_id }) => document_id);
      for (const [query, ids] of [
        ['', [bad, good]],
        ['status=failed', [bad]],
        ['error_code=unsupported_format', [bad]],
        [`document_id=${good}`, [good]],
        ['kind=alignment', []],
        [`connection_id=${crypto.randomUUID()}`, []],
        [`folder_id=${folderId}`, [bad, good]],
        [`folder_id=${folderId}&status=failed`, [bad]],
        [`folder_id=${crypto.randomUUID()}`, []],
      ] as [string, string[]][]) {
        expect(idsOf(await list(query)), query).deep.equal(ids);
        const failed = ids.includes(bad) ? 1 : 0;
        expect(await summary(query), query).include({ failed, succeeded: ids.length - failed, total: ids.length });
      }
      const first = await list('limit=1');
      const second = await list(`limit=1&cursor=${first.next_cursor}`);
      expect([idsOf(first), idsOf(second), second.next_cursor]).deep.equal([[bad], [good], null]);
      await ada.get(`/jobs?limit=1&status=failed&cursor=${first.next_cursor}`, 400);
      const none = { queued: 0, running: 0, parked: 0, cancelled: 0 };
      const progress = { done: 1, total: 1, unit: 'chunks' };
      expect(await summary()).deep.equal({ ...none, succeeded: 1, failed: 1, total: 2, progress });
      for (const other of [await stack.signUp(), await aColleague(stack, ada)]) {
        for (const query of ['', `folder_id=${folderId}`]) {
          expect((await list(query, other)).items).deep.equal([]);
          expect((await summary(query, other)).total).equal(0);
        }
      }
      // A document that was ingested twice counts once.
      await ada.patch(`/documents/${good}`, { target_tokens: 40, ingest: true }, 200);
      await untilJob(ada, `ingest-${good}-2`, 'succeeded');
      expect(await summary()).include({ succeeded: 1, failed: 1, total: 2 });
    });
  });

  describe('POST /jobs/{job_id}/retry', () => {
    it('starts the next attempt of a failed or cancelled job once, by the id of the job or of a step', async () => {
      const [{ jobId: failed }, { jobId: cancelled }] = [await stopped('failed'), await stopped('parked')];
      await move(cancelled, 'cancel');
      await untilStatus(ada, cancelled, 'cancelled');
      const id = `${failed}.embed`;
      expect(await move(id, 'retry')).deep.include({ id, attempt: 2, last_error: null });
      const both = [1, 2].map(() => sendJson(ada, 'POST', `/jobs/${cancelled}/retry`));
      expect(await statusesOf(both)).deep.equal([202, 409]);
      for (const job of [failed, cancelled]) expect(await untilJob(ada, job, 'succeeded')).property('attempt', 2);
    });

    it('resumes a parked job in the same attempt; the job parks again if its error was not fixed', async () => {
      const { jobId } = await stopped('parked');
      const before = stack.model.calls.length;
      stack.model.failEmbeddings(true, 401);
      await move(jobId, 'retry');
      const again = await untilStatus(ada, jobId, 'parked');
      expect(stack.model.calls.length).above(before);
      expect(again.last_error).property('code', 'model_not_configured');
      stack.model.failEmbeddings(false);
      const job = await move(jobId, 'retry');
      expect(job).deep.include({ attempt: 1, last_error: null }).property('status').not.equal('parked');
      await untilJob(ada, jobId, 'succeeded');
    });

    it('answers 409 for a running or successful job, a superseded generation and a deleted document', async () => {
      const { jobId } = await stopped('running');
      expect(await refusalOf(jobId, 'retry')).equal('job_open');
      stack.model.failEmbeddings(false);
      await untilJob(ada, jobId, 'succeeded');
      expect(await refusalOf(jobId, 'retry')).equal('job_finished');
      const { jobId: failed, documentId } = await stopped('failed');
      await ada.patch(`/documents/${documentId}`, { target_tokens: 40, ingest: true }, 200);
      expect(await refusalOf(failed, 'retry')).equal('superseded');
      await ada.delete(`/documents/${documentId}`, 204);
      expect(await refusalOf(failed, 'retry')).equal('document_deleted');
    });
  });

  describe('POST /jobs/{job_id}/skip and /cancel', () => {
    it('end a parked job as failed or cancelled; /cancel also ends a running job', async () => {
      for (const [status, how, end] of [
        ['parked', 'skip', 'failed'],
        ['parked', 'cancel', 'cancelled'],
        ['running', 'cancel', 'cancelled'],
      ] as const) {
        const { jobId } = await stopped(status);
        await move(how === 'skip' ? `${jobId}.embed` : jobId, how);
        const { last_error } = await untilStatus(ada, jobId, end);
        if (how === 'skip') expect(last_error).property('code', 'skipped');
      }
    });

    it('answer 409 for a job that is over, and for a deletion', async () => {
      const { jobId } = await stopped('failed');
      expect(await refusalOf(jobId, 'skip')).equal('job_not_parked');
      expect(await refusalOf(jobId, 'cancel')).equal('job_finished');
      const { jobId: deletion } = await stopped('parked');
      await stack.container.db('jobs').where({ id: deletion }).update({ kind: 'delete' });
      for (const how of ['skip', 'cancel'] as const) {
        expect(await refusalOf(deletion, how)).equal('deletion_is_final');
      }
    });

    it('answer 503 while Temporal is unavailable, but /retry is accepted and takes effect afterwards', async () => {
      const { jobId } = await stopped('parked');
      const unreachable = { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' };
      const cutOff = await startStack({ ...stack.settings, ...unreachable }, { workers: false });
      try {
        const there = ada.at(cutOff.baseUrl);
        for (const how of ['skip', 'cancel']) {
          const { body } = await there.post(`/jobs/${jobId}/${how}`, {}, 503);
          expect(body).include({ code: 'service_unavailable' });
        }
        stack.model.failEmbeddings(false);
        await there.post(`/jobs/${jobId}/retry`, {}, 202);
      } finally {
        await cutOff.close();
      }
      await untilStatus(ada, jobId, 'succeeded');
    });
  });

  describe('POST /jobs/retry', () => {
    const retryAll = async (filters: object, member: Member) =>
      ((await member.post('/jobs/retry', filters, 202)).body as { count: number }).count;

    it('retries the failed and parked jobs that match the filters if the caller may change them, at low priority', async () => {
      const member = await stack.signUp();
      const failed = await stoppedIngestion(stack, member, 'failed');
      const parked = await stoppedIngestion(stack, member, 'parked');
      const folder_id = await rootOf(member, 'personal_root');
      await member.post('/jobs/retry', {}, 422);
      expect(await retryAll({ error_code: 'no_such_code' }, member)).equal(0);
      expect(await retryAll({ folder_id, connection_id: crypto.randomUUID() }, member)).equal(0);
      expect(await retryAll({ folder_id }, member)).equal(2);
      for (const { jobId } of [failed, parked]) await untilStatus(member, jobId, 'succeeded');
      const { start } = await stack.container.db('jobs').where({ id: failed.jobId }).first();
      expect(start).property('bulk', true);
      expect(await retryAll({ folder_id }, member)).equal(0);

      const shared = await stoppedIngestion(stack, member, 'failed', await rootOf(member, 'org_root'));
      expect(await retryAll({ error_code: 'model_rejected' }, await aColleague(stack, member))).equal(0);
      await member.patch(`/documents/${shared.documentId}`, { target_tokens: 40, ingest: true }, 200);
      expect(await retryAll({ error_code: 'model_rejected' }, member), 'a superseded generation').equal(0);
    });
  });

  describe('GET /jobs/{job_id}/events', () => {
    async function open(jobId: string, member = ada): Promise<AsyncIterableIterator<StreamEvent>> {
      const response = await member.raw(`/jobs/${jobId}/events`);
      expect(response.status).equal(200);
      expect(response.headers.get('content-type')).match(/^text\/event-stream/);
      return readEvents(response, jobEventSchema);
    }
    const next = async (events: AsyncIterableIterator<StreamEvent>): Promise<StreamEvent> =>
      (await events.next()).value;

    it('sends each change, and `done` once the job is over or, for the id of a step, once that step is over', async () => {
      const { jobId } = await stopped('parked');
      const [only] = await collect(await open(`${jobId}.chunk`));
      expect(only?.event).equal('done');
      expect(only?.data).include({ id: `${jobId}.chunk`, status: 'succeeded' });
      const events = await open(jobId);
      const first = await next(events);
      expect(first.event).equal('progress');
      expect(jobSchema.parse(first.data)).deep.include({ id: jobId, status: 'parked', stage: 'embed' });
      await move(jobId, 'retry');
      const rest = await collect(events);
      expect(rest.slice(0, -1).filter(({ event }) => event !== 'progress')).deep.equal([]);
      expect(rest.at(-1)?.event).equal('done');
      expect(jobSchema.parse(rest.at(-1)?.data)).deep.include({ id: jobId, status: 'succeeded' });
    });

    it('sends the error of a step that is retried, and clears the error after progress', async () => {
      const { jobId } = await stopped('running');
      const events = await open(jobId);
      let job = jobSchema.parse((await next(events)).data);
      while (job.last_error === null) job = jobSchema.parse((await next(events)).data);
      expect(job).deep.include({ status: 'running', stage: 'embed' });
      expect(job.last_error).property('code', 'model_unavailable');
      const { body } = await ada.get('/jobs?status=running&error_code=model_unavailable', 200);
      expect(jobListSchema.parse(body).items.map(({ id }) => id)).deep.equal([jobId]);
      stack.model.failEmbeddings(false);
      const last = (await collect(events)).at(-1);
      expect(jobSchema.parse(last?.data)).deep.include({ status: 'succeeded', last_error: null });
    });

    it('sends `error` for a failed and for a cancelled job', async () => {
      const { jobId: failed } = await stopped('failed');
      const [only, ...more] = await collect(await open(failed));
      expect([only?.event, more]).deep.equal(['error', []]);
      const { job, ...fault } = Object(only?.data);
      expect(fault).deep.equal({ detail: 'The model service answered: 400 as scripted', code: 'model_rejected' });
      expect(jobSchema.parse(job)).property('status', 'failed');
      const { jobId } = await stopped('parked');
      const events = await open(jobId);
      await next(events);
      await move(jobId, 'cancel');
      const last = (await collect(events)).at(-1);
      expect(last?.event).equal('error');
      expect(last?.data).deep.include({ code: 'cancelled', detail: 'The job was cancelled.' });
    });

    it('ends the stream when the caller loses access to the job, or is disabled', async () => {
      const { jobId, documentId } = await stoppedIngestion(stack, ada, 'parked', await rootOf(ada, 'org_root'));
      const target_folder_id = await rootOf(ada, 'personal_root');
      const disable = ({ userId }: Member) => ada.post(`/entity/users/${userId}/disable`, undefined, 204);
      const move = () => ada.patch(`/documents/${documentId}`, { target_folder_id }, 200);
      for (const [lose, code] of [
        [disable, 'invalid_token'],
        [move, 'job_not_found'],
      ] as const) {
        const grace = await aColleague(stack, ada);
        const events = await open(jobId, grace);
        await next(events);
        await lose(grace);
        const [end] = await collect(events);
        expect([end?.event, Object(end?.data).code]).deep.equal(['error', code]);
      }
    });
  });

  describe('GET /jobs/events', () => {
    type Feed = AsyncIterableIterator<StreamEvent>;
    let grace: Member;
    beforeEach(async () => {
      grace = await aColleague(stack, ada);
    });

    const open = async (member: Member, after?: string): Promise<Feed> =>
      readEvents(
        await member.raw('/jobs/events', after === undefined ? {} : { headers: { 'last-event-id': after } }),
        jobFeedEventSchema,
      );
    /** Reads up to the event `ready`. */
    async function startOf(feed: Feed): Promise<{ jobs: JobDto[]; lastId: string }> {
      const jobs: JobDto[] = [];
      for (;;) {
        const { event, data, id } = (await feed.next()).value;
        if (event === 'ready') return { jobs, lastId: id ?? '' };
        expect(event).equal('job');
        jobs.push(jobSchema.parse(data));
      }
    }
    async function untilSent(feed: Feed, jobId: string, status: string): Promise<StreamEvent> {
      for (;;) {
        const next: StreamEvent = (await feed.next()).value;
        const job = jobSchema.parse(next.data);
        if (job.id === jobId && job.status === status) return next;
        // Jobs of other users that Grace may not read would come here.
        expect(job.document_name).oneOf(['note', 'later.txt']);
      }
    }

    it('sends the open jobs, `ready`, and each readable job that changes, also a new one', async () => {
      const { jobId } = await stoppedIngestion(stack, grace, 'parked');
      await stopped('parked');
      const feed = await open(grace);
      const { jobs } = await startOf(feed);
      expect(jobs.map(({ id, status, document_name }) => [id, status, document_name])).deep.equal([
        [jobId, 'parked', 'note'],
      ]);
      await grace.post(`/jobs/${jobId}/retry`, {}, 202);
      await untilSent(feed, jobId, 'succeeded');
      const { id } = await anUpload(grace, { name: 'later.txt', content: 'The dog is lazy.' });
      await untilSent(feed, `ingest-${id}-1`, 'succeeded');
    });

    it('resumes after Last-Event-ID with the jobs that have changed meanwhile, also those that are over', async () => {
      const { lastId } = await startOf(await open(grace));
      const { id } = await anUpload(grace, { name: 'later.txt', content: 'The fox is quick.' });
      await untilJob(grace, `ingest-${id}-1`, 'succeeded');
      const resumed = await open(grace, lastId);
      const { jobs } = await startOf(resumed);
      expect(jobs.map((job) => [job.id, job.status])).deep.equal([[`ingest-${id}-1`, 'succeeded']]);
      // An id that is older than a day, as after a restart of the client, starts anew: nothing is open.
      expect((await startOf(await open(grace, '1'))).jobs).deep.equal([]);
      await grace.get('/jobs/events', 400, { 'last-event-id': 'x' });
    });

    it('sends no job that the caller can no longer read, and ends when the account is disabled', async () => {
      const { jobId, documentId } = await stoppedIngestion(stack, ada, 'parked', await rootOf(ada, 'org_root'));
      const feed = await open(grace);
      expect((await startOf(feed)).jobs.map(({ id }) => id)).include(jobId);
      await ada.patch(`/documents/${documentId}`, { target_folder_id: await rootOf(ada, 'personal_root') }, 200);
      await ada.post(`/jobs/${jobId}/cancel`, {}, 202);
      await untilJob(ada, jobId, 'cancelled');
      await ada.post(`/entity/users/${grace.userId}/disable`, undefined, 204);
      const [end, ...more] = (await collect(feed)).filter(({ data }) => Object(data).status !== 'parked');
      expect([end?.event, Object(end?.data).code, more]).deep.equal(['error', 'invalid_token', []]);
    });
  });
});

import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { ingestRequestResultSchema } from '#src/modules/rag/rag.schema.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { anEvaluableVersion, startPath } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { post } from '#test/support/exact-limit.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { type RunningWorkers, startWorkers } from '#workers/run.ts';

const TIMES = 50;

describe('F11: what is asked for fifty times at once', () => {
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack();
    ada = await own.signUp();
  });
  after(() => own.close());
  afterEach(() => expectInvariants(own));

  const fiftyTimes = (ask: () => Promise<Response>) => Promise.all(Array.from({ length: TIMES }, ask));
  const answered = (answers: Response[], status: number) => answers.filter((answer) => answer.status === status);
  const count = async (table: string) => Number((await own.container.db(table).count({ count: '*' }).first())?.count);

  /** One of them has the effect; the others are told its answer, or that it is at work. */
  async function expectOneEffect(answers: Response[], status: number): Promise<void> {
    for (const answer of answers) expect(answer.status).oneOf([status, 409]);
    const played = answers.filter((answer) => answer.headers.get('idempotency-replayed') === 'true');
    expect(answered(answers, status).length - played.length).equal(1);
    const bodies = await Promise.all(answered(answers, status).map((answer) => answer.json()));
    const [id, ...others] = new Set(bodies.map((body) => fullDocumentSchema.parse(body).id));
    expect(others).deep.equal([]);
    await untilJob(ada, `ingest-${id}-1`, 'succeeded');
  }

  it('under one key, an upload: one document, one file, one run', async () => {
    const [documents, jobs] = [await count('documents'), await count('jobs')];
    const headers = { 'idempotency-key': randomUUID() };
    const answers = await fiftyTimes(() => {
      const body = new FormData();
      body.set('file', new Blob(['The same file.']), 'same.txt');
      return ada.raw('/documents', { method: 'POST', headers, body });
    });
    await expectOneEffect(answers, 201);
    expect([await count('documents'), await count('jobs')]).deep.equal([documents + 1, jobs + 1]);
  });

  it('under one key, a text that is pasted: one document, one run', async () => {
    const [documents, jobs] = [await count('documents'), await count('jobs')];
    const headers = { 'idempotency-key': randomUUID(), 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'Same', content: 'The same text.', source_format: 'text' });
    await expectOneEffect(await fiftyTimes(() => ada.raw('/documents/paste', { method: 'POST', headers, body })), 201);
    expect([await count('documents'), await count('jobs')]).deep.equal([documents + 1, jobs + 1]);
  });

  it('without a key, an ingestion: one generation, one run', async () => {
    const { documentId } = await uploadText(ada, 'A document for later.', { ingest: 'false' });
    const jobs = await count('jobs');
    const headers = { 'content-type': 'application/json' };
    const answers = await fiftyTimes(() =>
      ada.raw(`/rag/ingest/${documentId}`, { method: 'POST', headers, body: '{"redo":false}' }),
    );
    expect(answered(answers, 200)).length(TIMES);
    const bodies = await Promise.all(
      answers.map(async (answer) => ingestRequestResultSchema.parse(await answer.json())),
    );
    expect(bodies.filter(({ queued }) => queued)).length(1);
    const [jobId = '', ...others] = new Set(bodies.map((body) => body.embedding_job_id));
    expect(others).deep.equal([]);
    expect(await count('jobs')).equal(jobs + 1);
    await untilRun(ada, jobId, 'succeeded');
  });

  it('the evaluation of a version: one run, which each of them is told of', async () => {
    // Workers come after the starts: one that comes after the run has failed would rightly begin another attempt.
    const idle = await startStack({ EVAL_MODEL: 'judge' }, { workers: false });
    let workers: RunningWorkers | undefined;
    try {
      await registerSearchAttributes(idle.container.temporal);
      const bob = await idle.signUp();
      const of = await anEvaluableVersion(bob, { golden_cases: [{ id: 'fee', prompt: 'What is the fee?' }] });
      const start = () => post(bob, startPath(of), { run_golden: true }, { prefer: 'wait=0' });
      for (const answer of await fiftyTimes(start)) expect(answer.status).equal(200);
      const runs = await idle.container.db('jobs').where({ orgId: bob.orgId, kind: 'evaluate' });
      expect(runs).length(1);
      expect(runs[0]).include({ attempt: 1 });
      expect(await idle.container.db('evaluation_runs')).length(1);
      workers = startWorkers(idle.container);
      await untilJob(bob, runs[0].id, 'failed');
      await expectInvariants(idle);
    } finally {
      await workers?.shutdown();
      await idle.close();
    }
  });
});

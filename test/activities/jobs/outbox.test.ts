import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { appError } from '#src/errors.ts';
import { createJobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator, ParkedRunUpdateResult, WorkflowRunState } from '#src/ports/orchestrator.ts';
import { createTestDatabase } from '#test/support/services.ts';

/** A Temporal stub that can be unavailable, and whose runs are in the state that a test sets. */
type FakeTemporal = Pick<Orchestrator, 'start' | 'retryParked' | 'inspect'> & {
  isDown: boolean;
  refuses: boolean;
  isClosing: boolean;
  started: string[];
  retried: string[];
  parked: ParkedRunUpdateResult;
  runs: Map<string, WorkflowRunState>;
};

function createFakeTemporal(): FakeTemporal {
  const temporal: FakeTemporal = {
    isDown: false,
    refuses: false,
    isClosing: false,
    started: [],
    retried: [],
    parked: 'moved',
    runs: new Map(),
    start: async ({ workflowId }) => {
      if (temporal.isDown) throw appError('service_unavailable');
      if (temporal.refuses) throw appError('internal_error', { detail: 'Temporal refuses the start.' });
      if (temporal.isClosing) return 'closing';
      temporal.started.push(workflowId);
      return 'started';
    },
    retryParked: async (workflowId) => {
      if (temporal.isDown) throw new Error('unreachable');
      temporal.retried.push(workflowId);
      return temporal.parked;
    },
    inspect: async (workflowId) => temporal.runs.get(workflowId) ?? { state: 'open' },
  };
  return temporal;
}

describe('the jobs table as an outbox', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  const orgId = uuidv7();
  const createdBy = uuidv7();

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
    await db('organizations').insert({ id: orgId, name: 'Org' });
    await db('users').insert({ id: createdBy, email: 'ada@example.com', displayName: 'Ada' });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  beforeEach(() => db('jobs').delete());

  function setUp(of: Knex = db) {
    const temporal = createFakeTemporal();
    const logged: string[] = [];
    const log = (level: string) => () => void logged.push(level);
    const logger = { warn: log('warn'), error: log('error') };
    // The time limit of a sweeper step must not end a test early.
    const jobs = createJobsService({ db: of, orchestrator: temporal, logger, sweepStepMs: 60_000 });
    return { temporal, jobs, logged };
  }

  async function enqueue(
    jobs: ReturnType<typeof setUp>['jobs'],
    id = `ingest-${uuidv7()}-1`,
    documentId = uuidv7(),
    of: Knex = db,
  ): Promise<string> {
    await of.transaction((trx) =>
      jobs.enqueue(trx, {
        id,
        kind: 'ingest',
        orgId,
        createdBy,
        acl: [`user:${createdBy}`],
        documentId,
        start: {
          workflow: 'ingestDocument',
          input: { orgId, documentId, generation: 1 },
          summary: 'Ingest a note',
        },
        requestId: null,
      }),
    );
    return id;
  }

  const jobOf = (id: string) => db('jobs').where({ id }).first();
  /** Sets a timestamp back by an hour, so that the limit that counts from it has passed. */
  const age = (column: string) => db('jobs').update({ [column]: db.raw("now() - interval '1 hour'") });

  it('shows why a step is retried until it makes progress beyond the last attempt', async () => {
    const { jobs } = setUp();
    const id = await enqueue(jobs);
    const say = (done: number) => jobs.advance(id, { progress: { done, total: 9, unit: 'chunks' } });
    const errorCode = async () => (await db('jobs').where({ id }).first())?.errorCode;
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await say(4);
    await jobs.recordRetriedError(id, { code: 'model_unavailable', message: 'The model is away.' });
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await say(4);
    expect(await errorCode()).equal('model_unavailable');
    await say(5);
    expect(await errorCode()).equal(null);
  });

  it('a request starts its own job, and the sweeper does not start it again', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(temporal.started).deep.equal([id]);
    expect((await jobOf(id)).dispatchedAt).instanceOf(Date);
  });

  it('a job rolled back with its transaction is never started', async () => {
    const { temporal, jobs } = setUp();
    const fault = await db
      .transaction(async (trx) => {
        await jobs.enqueue(trx, {
          id: 'ingest-rolled-back',
          kind: 'ingest',
          orgId,
          createdBy,
          acl: [],
          start: { workflow: 'scoreAlignment', input: { orgId, chatId: uuidv7() }, summary: '' },
          requestId: null,
        });
        throw new Error('rolled back');
      })
      .catch((error: Error) => error.message);
    expect(fault).equal('rolled back');
    await jobs.dispatch('ingest-rolled-back');
    expect(temporal.started).deep.equal([]);
  });

  it('the sweeper starts a job that could not be started, once Temporal is available again', async () => {
    const { temporal, jobs } = setUp();
    temporal.isDown = true;
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });

    temporal.isDown = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(temporal.started).deep.equal([id]);
  });

  it('a job whose start Temporal refuses shows the error until it starts, and logs it at error level', async () => {
    const { temporal, jobs, logged } = setUp();
    temporal.isDown = true;
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', errorCode: null });
    Object.assign(temporal, { isDown: false, refuses: true });
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(logged).deep.equal(['warn', 'error', 'error']);
    expect(await jobOf(id)).include({ errorCode: 'internal_error', errorMessage: 'Temporal refuses the start.' });
    temporal.refuses = false;
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'running', stage: 'parse' });
    expect(await jobOf(id)).include({ status: 'running', errorCode: null });
  });

  it('the sweeper leaves a new job to its request during the grace period', async () => {
    // now() does not advance within a transaction.
    await db.transaction(async (trx) => {
      const { temporal, jobs } = setUp(trx);
      await enqueue(jobs, undefined, undefined, trx);
      await jobs.dispatchPending();
      expect(temporal.started).deep.equal([]);
    });
  });

  it('a job that was closed before it was started is not started', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.advance(id, { status: 'cancelled' });
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(temporal.started).deep.equal([]);
  });

  it('two sweepers never start the same job', async () => {
    const { temporal, jobs } = setUp();
    const ids = await Promise.all(Array.from({ length: 20 }, () => enqueue(jobs)));
    await age('dispatchAfter');
    await Promise.all([jobs.dispatchPending(), jobs.dispatchPending()]);
    expect(temporal.started.sort()).deep.equal(ids.sort());
  });

  it('enqueueing an existing id starts the next attempt of that job', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'failed', error: { code: 'model_unavailable', message: 'down' } });
    await enqueue(jobs, id);
    expect(await jobOf(id)).include({
      status: 'queued',
      attempt: 2,
      errorCode: null,
      startedAt: null,
      finishedAt: null,
      dispatchedAt: null,
    });
    await jobs.dispatch(id);
    expect(temporal.started).deep.equal([id, id]);
  });

  it('a retried job whose last run has not closed yet is started once it has', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    temporal.isClosing = true;
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });
    temporal.isClosing = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(temporal.started).deep.equal([id]);
  });

  async function park(jobs: ReturnType<typeof setUp>['jobs']): Promise<string> {
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'parked', error: { code: 'model_not_configured', message: 'no key' } });
    await db('jobs').where({ id }).update({ dispatchedAt: null });
    return id;
  }

  it('counts open jobs by kind and status, and jobs whose start is due', async () => {
    const { jobs } = setUp();
    const parked = await enqueue(jobs);
    await jobs.advance(parked, { status: 'parked', error: { code: 'model_not_configured', message: 'no key' } });
    await jobs.advance(await enqueue(jobs), { status: 'succeeded' });
    await db('jobs').update({ dispatchedAt: db.fn.now() });
    await enqueue(jobs);
    await age('dispatchAfter');
    const { open, outbox } = await jobs.statistics();
    expect(open).have.deep.members([
      { kind: 'ingest', status: 'parked', errorCode: 'model_not_configured', count: 1 },
      { kind: 'ingest', status: 'queued', errorCode: null, count: 1 },
    ]);
    expect(outbox.waiting).equal(1);
    expect(outbox.oldestSeconds).within(0, 600);
  });

  it('retrying a parked job resumes its run once Temporal is available, and starts no new one', async () => {
    const { temporal, jobs } = setUp();
    const id = await park(jobs);
    temporal.isDown = true;
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ dispatchedAt: null });
    temporal.isDown = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    await jobs.dispatchPending();
    expect(temporal).deep.include({ started: [id], retried: [id] });
  });

  const killed: WorkflowRunState = { state: 'failed', error: { code: 'run_terminated', message: 'ended' } };

  it('retrying a parked job whose run was terminated starts a new run', async () => {
    const { temporal, jobs } = setUp();
    const id = await park(jobs);
    temporal.parked = 'gone';
    temporal.runs.set(id, killed);
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', attempt: 2, errorCode: null, dispatchedAt: null });
  });

  it('one sweeper step starts more than one batch', async () => {
    const { temporal, jobs } = setUp();
    const ids = await Promise.all(Array.from({ length: 120 }, () => enqueue(jobs)));
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(temporal.started.sort()).deep.equal(ids.sort());
  });

  it('late progress does not change a closed job', async () => {
    const { jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.advance(id, { status: 'running', stage: 'embed', progress: { done: 64, total: 70, unit: 'chunks' } });
    await jobs.advance(id, { status: 'succeeded' });
    await jobs.advance(id, { progress: { done: 10, total: 70, unit: 'chunks' } });
    expect(await jobOf(id)).include({ status: 'succeeded', stage: 'embed', progressDone: 64 });
  });

  it('a closed job that a late step reopens is closed at once, unless its run was reset', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'cancelled' });
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'running', finishedAt: null });
    await jobs.advance(id, { status: 'cancelled' });
    temporal.runs.set(id, { state: 'cancelled' });
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'cancelled' });
  });

  const fault = { code: 'model_rejected', message: 'no' };
  const endings = [
    { run: { state: 'open' }, status: 'running', errorCode: null },
    { run: { state: 'stuck', error: fault }, status: 'running', errorCode: 'model_rejected' },
    { run: { state: 'parked', error: fault }, status: 'parked', errorCode: 'model_rejected' },
    { run: { state: 'cancelled' }, status: 'cancelled', errorCode: null },
    { run: { state: 'failed', error: fault }, status: 'failed', errorCode: 'model_rejected' },
    { run: { state: 'unknown' }, status: 'queued', errorCode: null },
  ] as const;
  for (const { run, status, errorCode } of endings) {
    it(`an open job whose run is ${run.state} shows as ${status}`, async () => {
      const { temporal, jobs } = setUp();
      const id = await enqueue(jobs);
      await jobs.dispatch(id);
      await jobs.advance(id, { status: 'running', stage: 'embed' });
      temporal.runs.set(id, run);
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status: 'running' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status, errorCode });
    });
  }

  async function ingestionOf(jobs: ReturnType<typeof setUp>['jobs'], activeGeneration: number | null): Promise<string> {
    const id = uuidv7();
    const source = {
      fileName: 'a',
      sizeBytes: 1,
      contentSha256: '',
      blobKey: '',
      ragConfig: { retrieval: {}, embedding: { model: 'model' } },
    };
    const by = { acl: [], createdBy, updatedBy: createdBy };
    await db('documents').insert({
      ...source,
      ...by,

      id,
      orgId,
      name: 'a',
      generation: 1,
      activeGeneration,
    });
    const jobId = await enqueue(jobs, `ingest-${id}-1`, id);
    await db('documentGenerations').insert({
      ...source,
      orgId,
      documentId: id,
      generation: 1,
      jobId,
      documentName: 'a',
    });
    await jobs.dispatch(jobId);
    return jobId;
  }

  it('an ingestion with a completed run has succeeded if its generation is active', async () => {
    const { temporal, jobs } = setUp();
    const id = await ingestionOf(jobs, 1);
    temporal.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'succeeded' });
  });

  it('an ingestion is repeated if the database lacks the result of its completed run', async () => {
    const { temporal, jobs } = setUp();
    const id = await ingestionOf(jobs, null);
    temporal.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null, finishedAt: null });
  });

  it('a deletion with a completed run is repeated while its document exists', async () => {
    const { temporal, jobs } = setUp();
    const { documentId } = await jobOf(await ingestionOf(jobs, 1));
    const id = `delete-${documentId}`;
    const start = { workflow: 'deleteDocument', input: { orgId, documentId }, summary: 'Delete' } as const;
    await jobs.enqueue(db, { id, kind: 'delete', orgId, createdBy, acl: [], documentId, start, requestId: null });
    await jobs.dispatch(id);
    temporal.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued' });
    await db('documentGenerations').where({ documentId }).delete();
    await db('documents').where({ id: documentId }).delete();
    await jobs.dispatch(id);
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'succeeded' });
  });

  it('an evaluation with a completed run is repeated while it has no results', async () => {
    const { temporal, jobs } = setUp();
    const id = 'evaluate-0';
    const run = { id, orgId, createdBy, acl: [], specification: '{}', estimatedCalls: 1 };
    await db('evaluationRuns').insert(run);
    const start = { workflow: 'evaluateVersion', input: { orgId, runId: id }, summary: 'Evaluate' } as const;
    await jobs.enqueue(db, { id, kind: 'evaluate', orgId, createdBy, acl: [], start, requestId: null });
    for (const status of ['queued', 'succeeded']) {
      await jobs.dispatch(id);
      temporal.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status });
      await db('evaluationRuns').where({ id }).update({ finishedAt: db.fn.now(), results: '{}' });
    }
  });

  it('a proposal of anchor words with a completed run is repeated while its live agent has no candidates', async () => {
    const { temporal, jobs } = setUp();
    const agentId = uuidv7();
    const [own, fields] = [
      { id: agentId, orgId, createdBy, acl: [] },
      { agentName: 'Clerk', agentPrompt: 'Be brief.' },
    ];
    const model = { chatModel: 'model', temperature: 0, maxTokens: 1, enabledTools: [], anchorWords: '{}', tags: [] };
    const streaks = { userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2 };
    const source = { visibility: 'personal', sourceDraftId: uuidv7(), sourceVersionId: uuidv7() };
    await db('agents').insert({ ...own, ...fields, ...model, ...streaks, ...source });
    const id = `anchors-${agentId}`;
    const start = { workflow: 'proposeAnchorWords', input: { orgId, agentId }, summary: 'Propose' } as const;
    await jobs.enqueue(db, { id, kind: 'anchors', orgId, createdBy, acl: [], agentId, start, requestId: null });
    await jobs.dispatch(id);
    temporal.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued' });
    await db('agents').where({ id: agentId }).update({ deletedAt: db.fn.now() });
    await jobs.dispatch(id);
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'succeeded' });
  });

  it('a preview with a completed run is repeated while its document has no preview of its original', async () => {
    const { temporal, jobs } = setUp();
    const documentId = uuidv7();
    const source = {
      orgId,
      name: 'Lease',
      fileName: 'lease.docx',
      blobKey: 'key',
      contentSha256: 'hash',
      sizeBytes: 1,
    };
    const ragConfig = { retrieval: {}, embedding: { model: 'model' } };
    const by = { createdBy, updatedBy: createdBy, ragConfig, acl: [] };
    await db('documents').insert({ id: documentId, ...source, ...by });
    const id = `preview-${documentId}-1`;
    const input = { orgId, documentId, generation: 1 };
    const start = { workflow: 'previewDocument', input, summary: 'Preview' } as const;
    await jobs.enqueue(db, { id, kind: 'preview', orgId, createdBy, acl: [], documentId, start, requestId: null });
    for (const status of ['queued', 'succeeded']) {
      await jobs.dispatch(id);
      temporal.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status });
      const preview = { originalKey: 'key', rendererVersion: '1', blobKey: 'pdf', sha256: 'hash', sizeBytes: 1 };
      await db('previews')
        .insert({ orgId, ...preview })
        .onConflict()
        .ignore();
    }
  });

  it('an export with a completed run is repeated until it is complete, unless it was deleted', async () => {
    const { temporal, jobs } = setUp();
    const exportId = uuidv7();
    const id = `export-${exportId}`;
    await db('exports').insert({ id: exportId, orgId, createdBy, expiresAt: new Date() });
    const start = { workflow: 'exportOrganization', input: { orgId, exportId }, summary: 'Export' } as const;
    await jobs.enqueue(db, { id, kind: 'export', orgId, createdBy, acl: [], start, requestId: null });
    for (const status of ['queued', 'succeeded']) {
      await jobs.dispatch(id);
      temporal.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status });
      await db('exports').where({ id: exportId }).update({ completedAt: db.fn.now() });
    }
  });

  const withoutMark = [
    { kind: 'alignment', start: { workflow: 'scoreAlignment', input: { orgId: '', chatId: '' }, summary: '' } },
    { kind: 'reembed', start: { workflow: 'reembedOrganization', input: { orgId: '', model: '' }, summary: '' } },
  ] as const;
  for (const { kind, start } of withoutMark) {
    it(`a job of the kind ${kind} whose run is completed has succeeded`, async () => {
      const { temporal, jobs } = setUp();
      const id = `${kind}-${uuidv7()}`;
      await jobs.enqueue(db, { id, kind, orgId, createdBy, acl: [], start, requestId: null });
      await jobs.dispatch(id);
      temporal.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status: 'succeeded' });
    });
  }

  it('a lost run is not started again after a request to cancel it', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await db('jobs').where({ id }).update({ cancelRequestedAt: db.fn.now() });
    temporal.runs.set(id, { state: 'unknown' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect((await jobOf(id)).finishedAt).instanceOf(Date);
    expect(await jobOf(id)).include({ status: 'cancelled' });
  });

  it('a cancellation requested in Temporal is recorded in the job, unless it belongs to an earlier start', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    const askToStop = async (toStop: string) => {
      temporal.runs.set(id, { state: 'open', toStop });
      await age('checkedAt');
      await jobs.reconcileOpen();
      return (await jobOf(id)).cancelRequestedAt;
    };
    expect(await askToStop(uuidv7())).equal(null);
    const { startId } = await jobOf(id);
    const askedAt = await askToStop(startId);
    expect(askedAt).instanceOf(Date);
    expect(await askToStop(startId)).deep.equal(askedAt);
  });

  it('a deletion ignores a cancellation requested in Temporal', async () => {
    const { temporal, jobs } = setUp();
    const documentId = uuidv7();
    const id = `delete-${documentId}`;
    const start = { workflow: 'deleteDocument', input: { orgId, documentId }, summary: '' } as const;
    await jobs.enqueue(db, { id, kind: 'delete', orgId, createdBy, acl: [], documentId, start, requestId: null });
    await jobs.dispatch(id);
    temporal.runs.set(id, { state: 'open', toStop: (await jobOf(id)).startId });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ cancelRequestedAt: null });
  });

  it('closing a cancelled run keeps work queued that was added after the run started', async () => {
    const { temporal, jobs } = setUp();
    const id = `alignment-${uuidv7()}`;
    const start = { workflow: 'scoreAlignment', input: { orgId, chatId: uuidv7() }, summary: '' } as const;
    const ask = () => jobs.enqueue(db, { id, kind: 'alignment', orgId, createdBy, acl: [], start, requestId: null });
    await ask();
    const { startId } = await jobOf(id);
    await ask();
    await jobs.dispatch(id);
    await jobs.recordCancellationOfNudged(id, startId);
    expect(await jobOf(id)).include({ status: 'queued' });
    temporal.runs.set(id, { state: 'cancelled' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });
    await jobs.recordCancellationOfNudged(id, (await jobOf(id)).startId);
    expect(await jobOf(id)).include({ status: 'cancelled' });
  });

  it('one sweeper step reconciles all jobs that were not checked for long', async () => {
    const { temporal, jobs } = setUp();
    for (const id of await Promise.all(Array.from({ length: 65 }, () => enqueue(jobs)))) {
      await jobs.dispatch(id);
      temporal.runs.set(id, { state: 'cancelled' });
    }
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await db('jobs').where({ status: 'cancelled' })).length(65);
  });

  it('a job whose run Temporal lost is started again', async () => {
    const { temporal, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    temporal.runs.set(id, { state: 'unknown' });
    await age('checkedAt');
    await age('dispatchAfter');
    await jobs.reconcileOpen();
    await jobs.dispatchPending();
    expect(temporal.started).deep.equal([id, id]);
  });
});

import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { appError } from '#src/errors.ts';
import { createJobsService } from '#src/modules/jobs/jobs.service.ts';
import type { MoveResult, Orchestrator, RunReport } from '#src/ports/orchestrator.ts';
import { createTestDatabase } from '#test/support/services.ts';

/** An engine that can be down, and whose runs end as a test says. */
type FakeEngine = Pick<Orchestrator, 'start' | 'retryParked' | 'inspect' | 'uiUrl'> & {
  isDown: boolean;
  refuses: boolean;
  isClosing: boolean;
  started: string[];
  retried: string[];
  parked: MoveResult;
  runs: Map<string, RunReport>;
};

function createFakeEngine(): FakeEngine {
  const engine: FakeEngine = {
    isDown: false,
    refuses: false,
    isClosing: false,
    started: [],
    retried: [],
    parked: 'moved',
    runs: new Map(),
    start: async ({ workflowId }) => {
      if (engine.isDown) throw appError('service_unavailable');
      if (engine.refuses) throw appError('internal_error', { detail: 'The engine refuses it.' });
      if (engine.isClosing) return 'closing';
      engine.started.push(workflowId);
      return 'started';
    },
    retryParked: async (workflowId) => {
      if (engine.isDown) throw new Error('unreachable');
      engine.retried.push(workflowId);
      return engine.parked;
    },
    inspect: async (workflowId) => engine.runs.get(workflowId) ?? { state: 'open' },
    uiUrl: () => null,
  };
  return engine;
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
    const engine = createFakeEngine();
    const logged: string[] = [];
    const log = (level: string) => () => void logged.push(level);
    const logger = { warn: log('warn'), error: log('error') };
    // How much a turn gets done is not what is asked here, but what it does.
    const jobs = createJobsService({ db: of, orchestrator: engine, logger, turnMs: 60_000 });
    return { engine, jobs, logged };
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
  /** Lets a time limit of the outbox pass. */
  const age = (column: string) => db('jobs').update({ [column]: db.raw("now() - interval '1 hour'") });

  it('says why a step is tried again until more is done than before', async () => {
    const { jobs } = setUp();
    const id = await enqueue(jobs);
    const say = (done: number) => jobs.advance(id, { progress: { done, total: 9, unit: 'chunks' } });
    const errorCode = async () => (await db('jobs').where({ id }).first())?.errorCode;
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await say(4);
    await jobs.noteFault(id, { code: 'model_unavailable', message: 'The model is away.' });
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await say(4);
    expect(await errorCode()).equal('model_unavailable');
    await say(5);
    expect(await errorCode()).equal(null);
  });

  it('the request that wrote a job starts it, and the sweeper leaves it alone', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(engine.started).deep.equal([id]);
    expect((await jobOf(id)).dispatchedAt).instanceOf(Date);
  });

  it('a job rolled back with its transaction is never started', async () => {
    const { engine, jobs } = setUp();
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
    expect(engine.started).deep.equal([]);
  });

  it('what could not be started waits for the sweeper, which tries until the engine is back', async () => {
    const { engine, jobs } = setUp();
    engine.isDown = true;
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });

    engine.isDown = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(engine.started).deep.equal([id]);
  });

  it('what the engine refuses says so until it is started, and is an error in the log', async () => {
    const { engine, jobs, logged } = setUp();
    engine.isDown = true;
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', errorCode: null });
    Object.assign(engine, { isDown: false, refuses: true });
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(logged).deep.equal(['warn', 'error', 'error']);
    expect(await jobOf(id)).include({ errorCode: 'internal_error', errorMessage: 'The engine refuses it.' });
    engine.refuses = false;
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'running', stage: 'parse' });
    expect(await jobOf(id)).include({ status: 'running', errorCode: null });
  });

  it('a fresh job is left to its request for a moment', async () => {
    // Within one transaction no time passes.
    await db.transaction(async (trx) => {
      const { engine, jobs } = setUp(trx);
      await enqueue(jobs, undefined, undefined, trx);
      await jobs.dispatchPending();
      expect(engine.started).deep.equal([]);
    });
  });

  it('a job that was closed before it was started is not started', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.advance(id, { status: 'cancelled' });
    await jobs.dispatch(id);
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(engine.started).deep.equal([]);
  });

  it('two sweepers share the work', async () => {
    const { engine, jobs } = setUp();
    const ids = await Promise.all(Array.from({ length: 20 }, () => enqueue(jobs)));
    await age('dispatchAfter');
    await Promise.all([jobs.dispatchPending(), jobs.dispatchPending()]);
    expect(engine.started.sort()).deep.equal(ids.sort());
  });

  it('a reused id is another attempt of the same job', async () => {
    const { engine, jobs } = setUp();
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
    expect(engine.started).deep.equal([id, id]);
  });

  it('a retried job whose last run has not closed yet is started once it has', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    engine.isClosing = true;
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });
    engine.isClosing = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(engine.started).deep.equal([id]);
  });

  async function park(jobs: ReturnType<typeof setUp>['jobs']): Promise<string> {
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'parked', error: { code: 'model_not_configured', message: 'no key' } });
    await db('jobs').where({ id }).update({ dispatchedAt: null });
    return id;
  }

  it('counts open jobs by kind and status, and those that wait to be started', async () => {
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

  it('a parked job that shall go on is moved and not started, as soon as the engine is there', async () => {
    const { engine, jobs } = setUp();
    const id = await park(jobs);
    engine.isDown = true;
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ dispatchedAt: null });
    engine.isDown = false;
    await age('dispatchAfter');
    await jobs.dispatchPending();
    await jobs.dispatchPending();
    expect(engine).deep.include({ started: [id], retried: [id] });
  });

  const killed: RunReport = { state: 'failed', error: { code: 'run_terminated', message: 'ended' } };

  it('a parked job whose run was ended by force starts anew when it shall go on', async () => {
    const { engine, jobs } = setUp();
    const id = await park(jobs);
    engine.parked = 'gone';
    engine.runs.set(id, killed);
    await jobs.dispatch(id);
    expect(await jobOf(id)).include({ status: 'queued', attempt: 2, errorCode: null, dispatchedAt: null });
  });

  it('more than one batch is started in one turn of the sweeper', async () => {
    const { engine, jobs } = setUp();
    const ids = await Promise.all(Array.from({ length: 120 }, () => enqueue(jobs)));
    await age('dispatchAfter');
    await jobs.dispatchPending();
    expect(engine.started.sort()).deep.equal(ids.sort());
  });

  it('progress that comes late does not touch a closed job', async () => {
    const { jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.advance(id, { status: 'running', stage: 'embed', progress: { done: 64, total: 70, unit: 'chunks' } });
    await jobs.advance(id, { status: 'succeeded' });
    await jobs.advance(id, { progress: { done: 10, total: 70, unit: 'chunks' } });
    expect(await jobOf(id)).include({ status: 'succeeded', stage: 'embed', progressDone: 64 });
  });

  it('a closed job that a step opens again is closed at once, unless its run was reset', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await jobs.advance(id, { status: 'cancelled' });
    await jobs.advance(id, { status: 'running', stage: 'embed' });
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'running', finishedAt: null });
    await jobs.advance(id, { status: 'cancelled' });
    engine.runs.set(id, { state: 'cancelled' });
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
      const { engine, jobs } = setUp();
      const id = await enqueue(jobs);
      await jobs.dispatch(id);
      await jobs.advance(id, { status: 'running', stage: 'embed' });
      engine.runs.set(id, run);
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

  it('an ingestion whose run is completed has succeeded once readers see what it made', async () => {
    const { engine, jobs } = setUp();
    const id = await ingestionOf(jobs, 1);
    engine.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'succeeded' });
  });

  it('an ingestion whose run knows of a database that is gone is done again', async () => {
    const { engine, jobs } = setUp();
    const id = await ingestionOf(jobs, null);
    engine.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null, finishedAt: null });
  });

  it('a deletion whose run is completed is done again while its document is there', async () => {
    const { engine, jobs } = setUp();
    const { documentId } = await jobOf(await ingestionOf(jobs, 1));
    const id = `delete-${documentId}`;
    const start = { workflow: 'deleteDocument', input: { orgId, documentId }, summary: 'Delete' } as const;
    await jobs.enqueue(db, { id, kind: 'delete', orgId, createdBy, acl: [], documentId, start, requestId: null });
    await jobs.dispatch(id);
    engine.runs.set(id, { state: 'completed' });
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

  it('an evaluation whose run is completed is done again while it has no results', async () => {
    const { engine, jobs } = setUp();
    const id = 'evaluate-0';
    const run = { id, orgId, createdBy, acl: [], specification: '{}', estimatedCalls: 1 };
    await db('evaluationRuns').insert(run);
    const start = { workflow: 'evaluateVersion', input: { orgId, runId: id }, summary: 'Evaluate' } as const;
    await jobs.enqueue(db, { id, kind: 'evaluate', orgId, createdBy, acl: [], start, requestId: null });
    for (const status of ['queued', 'succeeded']) {
      await jobs.dispatch(id);
      engine.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status });
      await db('evaluationRuns').where({ id }).update({ finishedAt: db.fn.now(), results: '{}' });
    }
  });

  it('the proposal of anchor words whose run is completed is done again while a live agent has none', async () => {
    const { engine, jobs } = setUp();
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
    engine.runs.set(id, { state: 'completed' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued' });
    await db('agents').where({ id: agentId }).update({ deletedAt: db.fn.now() });
    await jobs.dispatch(id);
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'succeeded' });
  });

  it('a preview whose run is completed is made again while a document has none of its original', async () => {
    const { engine, jobs } = setUp();
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
      engine.runs.set(id, { state: 'completed' });
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

  it('an export whose run is completed is made again until it is complete, unless it was deleted', async () => {
    const { engine, jobs } = setUp();
    const exportId = uuidv7();
    const id = `export-${exportId}`;
    await db('exports').insert({ id: exportId, orgId, createdBy, expiresAt: new Date() });
    const start = { workflow: 'exportOrganization', input: { orgId, exportId }, summary: 'Export' } as const;
    await jobs.enqueue(db, { id, kind: 'export', orgId, createdBy, acl: [], start, requestId: null });
    for (const status of ['queued', 'succeeded']) {
      await jobs.dispatch(id);
      engine.runs.set(id, { state: 'completed' });
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
      const { engine, jobs } = setUp();
      const id = `${kind}-${uuidv7()}`;
      await jobs.enqueue(db, { id, kind, orgId, createdBy, acl: [], start, requestId: null });
      await jobs.dispatch(id);
      engine.runs.set(id, { state: 'completed' });
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await jobOf(id)).include({ status: 'succeeded' });
    });
  }

  it('a job that was asked to stop is not started again when its run is lost', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    await db('jobs').where({ id }).update({ cancelRequestedAt: db.fn.now() });
    engine.runs.set(id, { state: 'unknown' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect((await jobOf(id)).finishedAt).instanceOf(Date);
    expect(await jobOf(id)).include({ status: 'cancelled' });
  });

  it('a run that somebody asked to stop in the engine is not counted on any more, unless it is of another start', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    const askToStop = async (toStop: string) => {
      engine.runs.set(id, { state: 'open', toStop });
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

  it('a deletion that somebody asked to stop goes on', async () => {
    const { engine, jobs } = setUp();
    const documentId = uuidv7();
    const id = `delete-${documentId}`;
    const start = { workflow: 'deleteDocument', input: { orgId, documentId }, summary: '' } as const;
    await jobs.enqueue(db, { id, kind: 'delete', orgId, createdBy, acl: [], documentId, start, requestId: null });
    await jobs.dispatch(id);
    engine.runs.set(id, { state: 'open', toStop: (await jobOf(id)).startId });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ cancelRequestedAt: null });
  });

  it('a run that closes as cancelled leaves alone what was queued since it began', async () => {
    const { engine, jobs } = setUp();
    const id = `alignment-${uuidv7()}`;
    const start = { workflow: 'scoreAlignment', input: { orgId, chatId: uuidv7() }, summary: '' } as const;
    const ask = () => jobs.enqueue(db, { id, kind: 'alignment', orgId, createdBy, acl: [], start, requestId: null });
    await ask();
    const { startId } = await jobOf(id);
    await ask();
    await jobs.dispatch(id);
    await jobs.recordCancellationOfNudged(id, startId);
    expect(await jobOf(id)).include({ status: 'queued' });
    engine.runs.set(id, { state: 'cancelled' });
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null });
    await jobs.recordCancellationOfNudged(id, (await jobOf(id)).startId);
    expect(await jobOf(id)).include({ status: 'cancelled' });
  });

  it('all that nobody has looked after for long is seen to in one turn of the sweeper', async () => {
    const { engine, jobs } = setUp();
    for (const id of await Promise.all(Array.from({ length: 65 }, () => enqueue(jobs)))) {
      await jobs.dispatch(id);
      engine.runs.set(id, { state: 'cancelled' });
    }
    await age('checkedAt');
    await jobs.reconcileOpen();
    expect(await db('jobs').where({ status: 'cancelled' })).length(65);
  });

  it('a job whose run the engine lost is started again', async () => {
    const { engine, jobs } = setUp();
    const id = await enqueue(jobs);
    await jobs.dispatch(id);
    engine.runs.set(id, { state: 'unknown' });
    await age('checkedAt');
    await age('dispatchAfter');
    await jobs.reconcileOpen();
    await jobs.dispatchPending();
    expect(engine.started).deep.equal([id, id]);
  });
});

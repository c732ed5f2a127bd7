import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { appError } from '#src/errors.ts';
import { createJobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ParkedRunUpdateResult, WorkflowRunState } from '#src/ports/orchestrator.ts';
import { useTestDatabase } from '#test/support/services.ts';
import { addAgent } from '#test/support/stored-rows.ts';

type Jobs = ReturnType<typeof createJobsService>;
type NewJob = Parameters<Jobs['enqueue']>[1];

/** A Temporal stub that can be unavailable, and whose runs are in the state that a test sets. */
function createFakeTemporal() {
  const temporal = {
    answers: 'started' as 'started' | 'closing' | 'no answer' | 'a refusal',
    started: [] as string[],
    parked: 'gone' as ParkedRunUpdateResult,
    retried: [] as string[],
    runs: new Map<string, WorkflowRunState>(),
    async start({ workflowId }: { workflowId: string }) {
      if (temporal.answers === 'no answer') throw appError('service_unavailable');
      if (temporal.answers === 'a refusal') throw appError('internal_error', { detail: 'Temporal refuses the start.' });
      if (temporal.answers === 'started') temporal.started.push(workflowId);
      return temporal.answers;
    },
    async retryParked(workflowId: string): Promise<ParkedRunUpdateResult> {
      if (temporal.answers === 'no answer') throw appError('service_unavailable');
      temporal.retried.push(workflowId);
      return temporal.parked;
    },
    inspect: async (workflowId: string) => temporal.runs.get(workflowId) ?? ({ state: 'open' } as const),
  };
  return temporal;
}

describe('the outbox of jobs,', () => {
  const own = useTestDatabase();
  const orgId = uuidv7();
  const createdBy = uuidv7();
  let temporal: ReturnType<typeof createFakeTemporal>;
  let logged: string[];
  let jobs: Jobs;

  before(async () => {
    await own.db('organizations').insert({ id: orgId, name: 'Org' });
    await own.db('users').insert({ id: createdBy, email: 'ada@example.com', displayName: 'Ada' });
  });
  beforeEach(async () => {
    await own.db('jobs').delete();
    temporal = createFakeTemporal();
    logged = [];
    const log = (level: string) => () => void logged.push(level);
    const logger = { warn: log('warn'), error: log('error') };
    // The time limit of a sweeper step must not end a test early.
    jobs = createJobsService({ db: own.db, orchestrator: temporal, logger, sweepStepMs: 60_000 });
  });

  /** Adds the job of an ingestion, unless the fields say otherwise. @returns its id */
  async function enqueue(fields: Partial<NewJob> = {}, db: Knex = own.db): Promise<string> {
    const documentId = uuidv7();
    const input = { orgId, documentId, generation: 1 };
    const start = { workflow: 'ingestDocument', input, summary: 'Ingest a note' } as const;
    const ingestion = { id: `ingest-${documentId}-1`, kind: 'ingest', start, requestId: null } as const;
    const subject = fields.kind === undefined ? { documentId } : {};
    const job: NewJob = { ...ingestion, orgId, createdBy, acl: [`user:${createdBy}`], ...subject, ...fields };
    await db.transaction((trx) => jobs.enqueue(trx, job));
    return job.id;
  }
  async function started(fields: Partial<NewJob> = {}): Promise<string> {
    const id = await enqueue(fields);
    await jobs.dispatch(id);
    return id;
  }
  async function parked(): Promise<string> {
    const id = await started();
    await jobs.advance(id, { status: 'parked', error: { code: 'model_not_configured', message: 'no key' } });
    await own.db('jobs').where({ id }).update({ dispatchedAt: null });
    return id;
  }

  const jobOf = (id: string) => own.db('jobs').where({ id }).first();
  /** Sets a timestamp back by an hour, so that the limit that counts from it has passed. */
  const age = (column: string) => own.db('jobs').update({ [column]: own.db.raw("now() - interval '1 hour'") });
  async function sweepStarts(): Promise<void> {
    await age('dispatchAfter');
    await jobs.dispatchPending();
  }
  /** Compares a job with its run, which is in this state. @returns the job */
  async function reconcile(id: string, run: WorkflowRunState) {
    temporal.runs.set(id, run);
    await age('checkedAt');
    await jobs.reconcileOpen();
    return jobOf(id);
  }

  describe('when runs are due,', () => {
    it('starts a job as soon as a request asks for its start, and does not start it again', async () => {
      const id = await started();
      await jobs.dispatch(id);
      await sweepStarts();
      expect(temporal.started).deep.equal([id]);
      expect((await jobOf(id)).dispatchedAt).instanceOf(Date);
    });

    it('starts no job whose transaction was rolled back, or that was closed before its start', async () => {
      const rolledBack = own.db.transaction(async (trx) => {
        await enqueue({ id: 'ingest-rolled-back' }, trx);
        throw new Error('rolled back');
      });
      expect(await rolledBack.catch((error: Error) => error.message)).equal('rolled back');
      const closed = await enqueue();
      await jobs.advance(closed, { status: 'cancelled' });
      for (const id of ['ingest-rolled-back', closed]) await jobs.dispatch(id);
      await sweepStarts();
      expect(temporal.started).deep.equal([]);
    });

    it('starts a job later if Temporal first gives no answer, or the answer that the run is still closing', async () => {
      const id = await enqueue();
      for (const answers of ['no answer', 'closing'] as const) {
        temporal.answers = answers;
        await jobs.dispatch(id);
        await sweepStarts();
        expect(await jobOf(id)).include({ status: 'queued', dispatchedAt: null, errorCode: null });
      }
      temporal.answers = 'started';
      await sweepStarts();
      expect(temporal.started).deep.equal([id]);
    });

    it('shows why Temporal refuses to start a job until it starts, and logs it at error level', async () => {
      temporal.answers = 'no answer';
      const id = await started();
      temporal.answers = 'a refusal';
      await jobs.dispatch(id);
      await sweepStarts();
      expect(logged).deep.equal(['warn', 'error', 'error']);
      expect(await jobOf(id)).include({ errorCode: 'internal_error', errorMessage: 'Temporal refuses the start.' });
      temporal.answers = 'started';
      await jobs.dispatch(id);
      await jobs.advance(id, { status: 'running', stage: 'parse' });
      expect(await jobOf(id)).include({ status: 'running', errorCode: null });
    });

    it('starts several batches of jobs in one sweep, and each job once, even with two sweepers', async () => {
      const ids = await Promise.all(Array.from({ length: 120 }, () => enqueue()));
      await age('dispatchAfter');
      await Promise.all([jobs.dispatchPending(), jobs.dispatchPending()]);
      expect(temporal.started.sort()).deep.equal(ids.sort());
    });

    it('resumes the run of a parked job that is retried, once Temporal is available, and starts no new run', async () => {
      const id = await parked();
      temporal.parked = 'moved';
      temporal.answers = 'no answer';
      await jobs.dispatch(id);
      expect(await jobOf(id)).include({ dispatchedAt: null });
      temporal.answers = 'started';
      await sweepStarts();
      await jobs.dispatchPending();
      expect(temporal).deep.include({ started: [id], retried: [id] });
    });

    it('starts a new run for a parked job that is retried after its run was terminated', async () => {
      const id = await parked();
      temporal.runs.set(id, { state: 'failed', error: { code: 'run_terminated', message: 'ended' } });
      await jobs.dispatch(id);
      expect(await jobOf(id)).include({ status: 'queued', attempt: 2, errorCode: null, dispatchedAt: null });
    });
  });

  it('once a job is closed, records no more progress of the job', async () => {
    const id = await enqueue();
    await jobs.advance(id, { status: 'running', stage: 'embed', progress: { done: 64, total: 70, unit: 'chunks' } });
    await jobs.advance(id, { status: 'succeeded' });
    await jobs.advance(id, { progress: { done: 10, total: 70, unit: 'chunks' } });
    expect(await jobOf(id)).include({ status: 'succeeded', stage: 'embed', progressDone: 64 });
  });

  it('asked for statistics, counts open jobs by kind and status, and jobs whose start is due', async () => {
    await parked();
    await jobs.advance(await enqueue(), { status: 'succeeded' });
    await own.db('jobs').update({ dispatchedAt: own.db.fn.now() });
    await enqueue();
    await age('dispatchAfter');
    const { open, outbox } = await jobs.statistics();
    expect(open).have.deep.members([
      { kind: 'ingest', status: 'parked', errorCode: 'model_not_configured', count: 1 },
      { kind: 'ingest', status: 'queued', errorCode: null, count: 1 },
    ]);
    expect(outbox.waiting).equal(1);
    expect(outbox.oldestSeconds).within(0, 600);
  });

  describe('when it reconciles jobs with their runs in Temporal,', () => {
    const error = { code: 'model_rejected', message: 'no' };
    const states: [run: WorkflowRunState, status: string, errorCode: string | null][] = [
      [{ state: 'open' }, 'running', null],
      [{ state: 'stuck', error }, 'running', 'model_rejected'],
      [{ state: 'parked', error }, 'parked', 'model_rejected'],
      [{ state: 'cancelled' }, 'cancelled', null],
      [{ state: 'failed', error }, 'failed', 'model_rejected'],
    ];
    for (const [run, status, errorCode] of states) {
      it(`shows an open job as ${status} if its run is ${run.state}`, async () => {
        const id = await started();
        await jobs.advance(id, { status: 'running', stage: 'embed' });
        temporal.runs.set(id, run);
        await jobs.reconcileOpen();
        expect(await jobOf(id), 'before it is due').include({ status: 'running' });
        expect(await reconcile(id, run)).include({ status, errorCode });
      });
    }

    it('checks in one sweep all jobs whose last check is too long ago, however many they are', async () => {
      for (const id of await Promise.all(Array.from({ length: 65 }, () => started()))) {
        temporal.runs.set(id, { state: 'cancelled' });
      }
      await age('checkedAt');
      await jobs.reconcileOpen();
      expect(await own.db('jobs').where({ status: 'cancelled' })).length(65);
    });

    it('starts a job again if Temporal lost its run, except a job that a user asked to cancel', async () => {
      const [lost, cancelled] = [await started(), await started()];
      await own.db('jobs').where({ id: cancelled }).update({ cancelRequestedAt: own.db.fn.now() });
      temporal.runs.set(lost, { state: 'unknown' });
      expect(await reconcile(cancelled, { state: 'unknown' })).include({ status: 'cancelled' });
      expect((await jobOf(cancelled)).finishedAt).instanceOf(Date);
      await sweepStarts();
      expect(temporal.started).deep.equal([lost, cancelled, lost]);
    });

    it('closes a job again at once if a late step of its run reopened it, unless the run was reset', async () => {
      const id = await started();
      for (const [run, status] of [
        [{ state: 'open' }, 'running'],
        [{ state: 'cancelled' }, 'cancelled'],
      ] as const) {
        await jobs.advance(id, { status: 'cancelled' });
        await jobs.advance(id, { status: 'running', stage: 'embed' });
        temporal.runs.set(id, run);
        await jobs.reconcileOpen();
        expect(await jobOf(id)).include({ status });
      }
    });

    it('records a cancellation that was requested in Temporal, unless the request was for an earlier run or a deletion', async () => {
      const cancellationOf = async (id: string, toStop: string) =>
        (await reconcile(id, { state: 'open', toStop })).cancelRequestedAt;
      const id = await started();
      const { startId } = await jobOf(id);
      expect(await cancellationOf(id, uuidv7())).equal(null);
      const askedAt = await cancellationOf(id, startId);
      expect(askedAt).instanceOf(Date);
      expect(await cancellationOf(id, startId)).deep.equal(askedAt);

      const documentId = uuidv7();
      const start = { workflow: 'deleteDocument', input: { orgId, documentId }, summary: '' } as const;
      const deletion = await started({ id: `delete-${documentId}`, kind: 'delete', documentId, start });
      expect(await cancellationOf(deletion, (await jobOf(deletion)).startId)).equal(null);
    });

    it('keeps a job queued if more work was added to it after its run, now cancelled, had started', async () => {
      const id = `alignment-${uuidv7()}`;
      const start = { workflow: 'scoreAlignment', input: { orgId, chatId: uuidv7() }, summary: '' } as const;
      const ask = () => enqueue({ id, kind: 'alignment', start });
      await ask();
      const { startId } = await jobOf(id);
      await ask();
      await jobs.dispatch(id);
      await jobs.recordCancellationOfNudged(id, startId);
      expect(await jobOf(id)).include({ status: 'queued' });
      expect(await reconcile(id, { state: 'cancelled' })).include({ status: 'queued', dispatchedAt: null });
      await jobs.recordCancellationOfNudged(id, (await jobOf(id)).startId);
      expect(await jobOf(id)).include({ status: 'cancelled' });
    });
  });

  describe('when a run is completed,', () => {
    const [documentId, agentId, exportId] = [uuidv7(), uuidv7(), uuidv7()];
    const first = { documentId, generation: 1 };
    before(async () => {
      const { db } = own;
      const ragConfig = { retrieval: {}, embedding: { model: 'model' } };
      const original = { orgId, fileName: 'a', sizeBytes: 1, contentSha256: 'hash', blobKey: 'key', ragConfig };
      const by = { createdBy, updatedBy: createdBy };
      await db('documents').insert({ ...original, ...by, id: documentId, name: 'a', acl: [], generation: 1 });
      const jobId = `ingest-${documentId}-1`;
      await db('documentGenerations').insert({ ...original, ...first, jobId, documentName: 'a' });
      const run = { id: 'evaluate-0', orgId, createdBy, acl: [], specification: '{}', estimatedCalls: 1 };
      await db('evaluationRuns').insert(run);
      await addAgent(db, { orgId, createdBy, agentId });
      await db('exports').insert({ id: exportId, orgId, createdBy, expiresAt: new Date() });
    });

    const at = new Date();
    const preview = { orgId, originalKey: 'key', rendererVersion: '1', blobKey: 'pdf', sha256: 'hash', sizeBytes: 1 };
    const deleteDocument = async () => {
      await own.db('documentGenerations').delete();
      await own.db('documents').delete();
    };
    /** `complete` adds what the run must leave in the database; until that is there, the work is done again. */
    type Work = [kind: string, workflow: string, input: object, id: string, complete?: () => PromiseLike<unknown>];
    const update = (table: string, columns: object) => () => own.db(table).update(columns);
    const works: Work[] = [
      ['ingest', 'ingestDocument', first, `ingest-${documentId}-1`, update('documents', { activeGeneration: 1 })],
      ['preview', 'previewDocument', first, `preview-${documentId}-1`, () => own.db('previews').insert(preview)],
      ['delete', 'deleteDocument', { documentId }, `delete-${documentId}`, deleteDocument],
      ['evaluate', 'evaluateVersion', {}, 'evaluate-0', update('evaluationRuns', { finishedAt: at, results: '{}' })],
      // Its agent has candidates, or is deleted.
      ['anchors', 'proposeAnchorWords', { agentId }, `anchors-${agentId}`, update('agents', { deletedAt: at })],
      ['export', 'exportOrganization', { exportId }, `export-${exportId}`, update('exports', { completedAt: at })],
      ['alignment', 'scoreAlignment', { chatId: '' }, 'alignment-0'],
      ['reembed', 'reembedOrganization', { model: '' }, 'reembed-0'],
    ];
    for (const [kind, workflow, input, id, complete] of works) {
      it(`closes the ${kind} job as succeeded if the database has the result, and starts it again if not`, async () => {
        const start = { workflow, input: { orgId, runId: id, ...input }, summary: '' };
        const subjects = Object.entries(input).filter(([key]) => ['documentId', 'agentId'].includes(key));
        await started({ id, kind, start, ...Object.fromEntries(subjects) } as Partial<NewJob>);
        if (complete !== undefined) {
          const again = await reconcile(id, { state: 'completed' });
          expect(again).include({ status: 'queued', dispatchedAt: null, finishedAt: null });
          await complete();
          await jobs.dispatch(id);
        }
        expect(await reconcile(id, { state: 'completed' })).include({ status: 'succeeded' });
      });
    }
  });
});

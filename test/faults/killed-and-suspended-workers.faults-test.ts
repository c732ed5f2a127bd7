import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { replaceOriginal } from '#test/support/builders.ts';
import type { ServiceProcess } from '#test/support/child-processes.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured, note } from '#test/support/fault-run.ts';
import { sentences } from '#test/support/ingestion-steps.ts';
import { embeddedTexts, forwardEmbeddings } from '#test/support/scripted-model.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { startedSteps } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const DOCUMENTS = 50;
const KILL_INTERVAL_MS = 3_000;
const LEAST_KILLS = 10;
const TIMEOUT_MS = 15 * 60_000;

type Outcome = { digests: string[]; texts: number; timeMs: number };

describe('F2: workers that are killed every three seconds, in turn', function () {
  this.timeout(TIMEOUT_MS * 2);
  const random = seeded(runSeed);
  const contents = Array.from({ length: DOCUMENTS }, (_, document) =>
    Array.from(
      { length: random.between(900, 1_100) },
      (_, index) => `Sentence ${index} of document ${document} is about the number ${random.between(1, 9_999)}.`,
    ).join(' '),
  );
  before(() => buildWorkflowBundle());

  async function ingestAll(own: FaultCase): Promise<Outcome> {
    const { db } = own.stack.container;
    const beganMs = performance.now();
    const documentIds: string[] = [];
    for (const content of contents) {
      const { documentId } = await uploadText(own.member, content, { target_tokens: '40', overlap_tokens: '0' });
      documentIds.push(documentId);
    }
    const succeeded = () => db('jobs').where({ status: 'succeeded' }).select('id');
    await until('every document is ingested', async () => (await succeeded()).length === DOCUMENTS);
    const timeMs = performance.now() - beganMs;
    await expectInvariants(own.stack);
    await expectStoresMatch(own.stack);
    const digests = [];
    for (const documentId of documentIds) digests.push(await contentDigest(db, documentId));
    return { digests, texts: embeddedTexts(own.model).length, timeMs };
  }

  async function withWorkers<T>(work: (own: FaultCase, workers: ServiceProcess[]) => Promise<T>): Promise<T> {
    const own = await startFaultCase();
    // The smallest deployment in which a worker may die while the work goes on.
    const starting = Promise.all([own.startWorker(), own.startWorker()]);
    return starting.then((workers) => work(own, workers)).finally(own.close);
  }

  /** Kills one worker after another until it is told to stop. @returns the kills, and what they may have cost */
  async function killInTurn(own: FaultCase, workers: ServiceProcess[], over: AbortSignal) {
    const { db } = own.stack.container;
    let kills = 0;
    let inFlight = 0;
    for (;;) {
      await delay(KILL_INTERVAL_MS, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted) break;
      await workers.shift()?.kill();
      const asked = new Set(embeddedTexts(own.model)).size;
      inFlight += asked - Number((await db('embeddings').count({ count: '*' }).first())?.count);
      workers.push(await own.startWorker());
      kills += 1;
    }
    return { kills, inFlight };
  }

  it('ingest every document with the same result as undisturbed workers, and repeat only calls in flight', async () => {
    const undisturbed = await withWorkers(ingestAll);
    const [outcome, { kills, inFlight }] = await withWorkers((own, workers) => {
      const over = new AbortController();
      const ingesting = ingestAll(own).finally(() => over.abort());
      return Promise.all([ingesting, killInTurn(own, workers, over.signal)]);
    });
    const repeated = outcome.texts - undisturbed.texts;
    note(`${DOCUMENTS} documents, ${undisturbed.texts} texts, ${kills} kills, ${repeated} texts repeated`);
    note(`undisturbed ${(undisturbed.timeMs / 1_000).toFixed(1)} s`);
    expect(outcome.digests).deep.equal(undisturbed.digests);
    expect(kills, 'kills').least(LEAST_KILLS);
    expect(repeated, 'texts that were asked for again').at.most(inFlight);
    measured('with kills', outcome.timeMs, 3 * undisturbed.timeMs);
  });
});

const chunking = { target_tokens: '14', overlap_tokens: '0' };

type Uploaded = { documentId: string; jobId: string };
type Release = () => Promise<unknown>;

/**
 * Where a worker is suspended, as one is whose machine is suspended. For as long as its connection is open Temporal
 * assigns steps to it, each of which times out, until its open poll ends after a minute.
 */
type Sleep = {
  faults?: string;
  /** Parameters of its database URL. */
  database?: string;
  /** A newer original is ingested before it wakes. */
  isReplaced?: true;
  /** Holds the worker where it is to be suspended. @returns releases it, and is called once it is suspended */
  hold: (own: FaultCase, uploaded: Promise<Uploaded>) => Promise<Release>;
};

/** Waits until the model is asked to embed. @returns lets it answer */
const holdCall = ({ model }: FaultCase): Promise<Release> =>
  new Promise((resolve) => {
    model.behaveEmbedding((response, body: { input: string[] }) => {
      model.behaveEmbedding(null);
      resolve(() => forwardEmbeddings(body, response));
    });
  });

/** Holds a row until an update of it waits in Postgres. @returns releases the row */
async function holdRow(
  { stack }: FaultCase,
  table: 'jobs' | 'documents',
  id: string,
  begin: Release = async () => undefined,
) {
  const { db } = stack.container;
  const trx = await db.transaction();
  await trx(table).where({ id }).forUpdate().first();
  await begin();
  const waiting = db('pg_stat_activity')
    .whereRaw('datname = current_database()')
    .where({ waitEventType: 'Lock' })
    .whereLike('query', `update "${table}"%`);
  await until(`an update of ${table} waits`, async () => (await waiting.clone().first('pid')) !== undefined);
  return () => trx.rollback();
}

const sleeps: Record<string, Sleep> = {
  'while a model call is in flight': { isReplaced: true, hold: holdCall },
  'just after it has entered a stage': {
    faults: 'parseDocument:after_effect:delay:2000',
    isReplaced: true,
    hold: async (own, uploaded) => {
      const { documentId, jobId } = await uploaded;
      const generation = () => own.stack.container.db('documentGenerations').where({ documentId }).first();
      await until('its format is known', async () => (await generation()).sourceFormat !== null);
      return holdRow(own, 'jobs', jobId);
    },
  },
  'just before it enters a stage': {
    faults: 'embedChunks:before:delay:5000',
    hold: async ({ stack }, uploaded) => {
      const run = stack.container.temporal.client.workflow.getHandle((await uploaded).jobId);
      // Its run may not have been started yet.
      await until('the step has begun', async () =>
        (await startedSteps(run).catch((): string[] => [])).includes('embedChunks'),
      );
      return async () => undefined;
    },
  },
  'in the transaction that activates its generation': {
    // In production a minute.
    database: '?idle_in_transaction_session_timeout=1000',
    hold: async (own, uploaded) => {
      const answer = await holdCall(own);
      return holdRow(own, 'documents', (await uploaded).documentId, answer);
    },
  },
};

async function runCase({ faults, database = '', isReplaced, hold }: Sleep): Promise<void> {
  const own = await startFaultCase();
  const { db } = own.stack.container;
  try {
    const sleeper = await own.startWorker({
      DATABASE_URL: `${own.stack.settings.DATABASE_URL}${database}`,
      ...(faults !== undefined && { NODE_ENV: 'test', FAULTS: faults }),
    });
    const uploaded = uploadText(own.member, sentences(180, 'of the first'), chunking);
    const [release, { documentId, jobId }] = await Promise.all([hold(own, uploaded), uploaded]);
    process.kill(sleeper.pid, 'SIGSTOP');
    const stoppedMs = performance.now();
    await release();
    await own.startWorker();
    await untilJob(own.member, jobId, 'succeeded');
    measured('done by another within', performance.now() - stoppedMs, 90_000);
    if (isReplaced) {
      await replaceOriginal(own.member, documentId, { name: 'newer.txt', content: sentences(180, 'of the second') });
      await untilJob(own.member, `ingest-${documentId}-2`, 'succeeded');
    }
    const before = await contentDigest(db, documentId);

    process.kill(sleeper.pid, 'SIGCONT');
    // It finishes its step.
    await sleeper.stop();
    expect(await sleeper.ended).equal('exit code 0');
    expect(await contentDigest(db, documentId)).equal(before);
    await until('the job has succeeded again', async () => {
      const { status, errorCode } = await db('jobs').where({ id: jobId }).first();
      return status === 'succeeded' && errorCode === null;
    });
    expect(await db('documentGenerations').where({ documentId }).pluck('generation')).deep.equal([isReplaced ? 2 : 1]);
    await expectInvariants(own.stack);
    await expectStoresMatch(own.stack);
  } finally {
    await own.close();
  }
}

describe('F25: a worker that is suspended until others have done its work', function () {
  this.timeout(240_000);
  let outcomes: Promise<void>[];
  before(async () => {
    await buildWorkflowBundle();
    const start = sideBySide(2);
    outcomes = Object.values(sleeps).map((sleep) => start(() => runCase(sleep)));
  });

  Object.keys(sleeps).forEach((where, index) => {
    it(`doubles, loses and overwrites nothing when it continues (suspended ${where})`, () => outcomes[index]);
  });
});

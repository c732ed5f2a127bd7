import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { forwardEmbeddings } from '#test/support/scripted-model.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const TIMEOUT_MS = 120_000;
const chunking = { target_tokens: '14', overlap_tokens: '0' };
const text = (name: string) =>
  Array.from({ length: 180 }, (_, index) => `Sentence ${index} of ${name} says something.`).join(' ');

/**
 * Where a worker falls asleep, as one does whose machine is suspended. For as long as its line is open the engine hands
 * it steps, each of which is missed for itself, until what it has asked for runs out after a minute.
 */
type Sleep = {
  /** Of the worker that sleeps. */
  settings: (own: FaultCase) => Record<string, string>;
  /** A newer original is ingested before it wakes. */
  isReplaced: boolean;
  /**
   * Holds the first worker at its place.
   * @param uploaded the document whose ingestion it begins
   * @returns lets go of it, which is called once it sleeps
   */
  hold: (own: FaultCase, uploaded: Promise<{ documentId: string; jobId: string }>) => Promise<() => Promise<void>>;
};

/** Settles once the model is asked to embed. @returns lets it answer */
function holdCall({ model }: FaultCase): Promise<() => Promise<void>> {
  return new Promise((resolve) => {
    model.behaveEmbedding((response: ServerResponse, body: { input: string[] }) => {
      model.behaveEmbedding(null);
      resolve(() => forwardEmbeddings(body, response));
    });
  });
}

/** Holds a row so that whoever writes it waits in Postgres. */
async function lock({ stack }: FaultCase, table: 'jobs' | 'documents', id: string): Promise<() => Promise<void>> {
  const trx = await stack.container.db.transaction();
  await trx(table).where({ id }).forUpdate().first();
  return async () => void (await trx.rollback());
}

const untilThere = (what: string, isThere: () => Promise<boolean | undefined>) => until(what, isThere);

const untilSessions = ({ stack }: FaultCase, what: string, condition: string) =>
  untilThere(what, async () => {
    const { rows } = await stack.container.db.raw<{ rows: unknown[] }>(
      `select from pg_stat_activity where datname = current_database() and ${condition}`,
    );
    return rows.length > 0;
  });

const sleeps: Record<string, Sleep> = {
  'while a call of the model is under way': {
    settings: () => ({}),
    isReplaced: true,
    hold: holdCall,
  },
  'just after it has entered a stage': {
    settings: () => ({ NODE_ENV: 'test', FAULTS: 'parseDocument:after_effect:delay:2000' }),
    isReplaced: true,
    hold: async (own, uploaded) => {
      const { documentId, jobId } = await uploaded;
      const { db } = own.stack.container;
      await untilThere('its format is known', async () => {
        return (await db('documentGenerations').where({ documentId }).first()).sourceFormat !== null;
      });
      const letGo = await lock(own, 'jobs', jobId);
      await untilSessions(own, 'it enters', `wait_event_type = 'Lock' and query like 'update "jobs"%'`);
      return letGo;
    },
  },
  'just before it enters a stage': {
    settings: () => ({ NODE_ENV: 'test', FAULTS: 'embedChunks:before:delay:5000' }),
    isReplaced: false,
    hold: async ({ stack }, uploaded) => {
      const { jobId } = await uploaded;
      const run = stack.container.temporal.client.workflow.getHandle(jobId);
      await untilThere('the step has begun', async () => {
        // Its run may not have been started yet.
        const description = await run.describe().catch(() => undefined);
        return description?.raw.pendingActivities?.some(
          ({ activityType, lastStartedTime }) => activityType?.name === 'embedChunks' && lastStartedTime != null,
        );
      });
      return async () => undefined;
    },
  },
  'in the transaction that activates its generation': {
    // In production a minute.
    settings: ({ stack }) => ({
      DATABASE_URL: `${stack.settings.DATABASE_URL}?idle_in_transaction_session_timeout=1000`,
    }),
    isReplaced: false,
    hold: async (own, uploaded) => {
      const goOn = await holdCall(own);
      const letGo = await lock(own, 'documents', (await uploaded).documentId);
      await goOn();
      await untilSessions(own, 'it activates', `wait_event_type = 'Lock' and query like 'update "documents"%'`);
      return letGo;
    },
  },
};

async function runCase({ settings, isReplaced, hold }: Sleep): Promise<void> {
  const own = await startFaultCase();
  const { db } = own.stack.container;
  try {
    const sleeper = await own.startWorker(settings(own));
    const uploaded = uploadText(own.member, text('the first'), chunking);
    const [letGo, { documentId, jobId }] = await Promise.all([hold(own, uploaded), uploaded]);
    process.kill(sleeper.pid, 'SIGSTOP');
    const stoppedMs = performance.now();
    await letGo();
    await own.startWorker();
    await untilJob(own.member, jobId, 'succeeded');
    measured('done by another within', performance.now() - stoppedMs, 90_000);
    if (isReplaced) {
      const file = { name: 'newer.txt', content: text('the second') };
      await own.member.upload(`/documents/${documentId}`, file, 200, { method: 'PATCH' });
      await untilJob(own.member, `ingest-${documentId}-2`, 'succeeded');
    }
    const readers = () => contentDigest(db, documentId);
    const seen = await readers();

    process.kill(sleeper.pid, 'SIGCONT');
    // It lets its step end.
    await sleeper.stop();
    expect(await sleeper.ended).equal('exit code 0');
    expect(await readers()).equal(seen);
    await until('the job says so again', async () => {
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

describe('F25: a worker that sleeps until others have done its work', function () {
  this.timeout(TIMEOUT_MS * 2);
  // Each takes the time after which a silent worker is missed, and the starts of two.
  const all = Object.entries(sleeps);
  let outcomes: Promise<void>[];

  before(async () => {
    await buildWorkflowBundle();
    const start = sideBySide(2);
    outcomes = all.map(([, sleep]) => start(() => runCase(sleep)));
  });

  all.forEach(([where], index) => {
    it(`${where}: when it wakes nothing is doubled, lost or overwritten`, () => outcomes[index]);
  });
});

import { expect } from 'chai';
import { createIngestionActivities } from '#activities/ingestion.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { until } from '#test/support/until.ts';
import { type JobView, untilJob } from '#test/support/until-job.ts';
import { workflowBundle } from '#workers/bundle.ts';

const positions = ['before', 'after_effect', 'after_return'] as const;

/** Most of the time a case waits until a silent worker is missed: the starts of workers bound how many go well. */
const CASES_AT_A_TIME = 6;
const CASE_TIMEOUT_MS = 120_000;

/** A document of some hundred chunks, which take several calls of the model; another one for each seed. */
const random = seeded(runSeed);
const words = ['fee', 'notice', 'period', 'contract', 'month', 'invoice', 'office', 'storey'] as const;
const content = Array.from(
  { length: 180 },
  (_, index) => `Sentence ${index} speaks of a ${random.pick(words)} and a ${random.pick(words)}.`,
).join(' ');
const chunking = { target_tokens: '14', overlap_tokens: '0' };

type Driven = { jobId: string; documentId: string; isReadable: boolean };
/** A way through the service: what a user does, whatever dies meanwhile. `faults` lead to where it goes. */
type Scenario = { faults?: string; drive(own: FaultCase): Promise<Driven> };

const ingest: Scenario = {
  drive: async ({ member }) => {
    const uploaded = await uploadText(member, content, chunking);
    await untilJob(member, uploaded.jobId, 'succeeded', CASE_TIMEOUT_MS);
    return { ...uploaded, isReadable: true };
  },
};

const fail: Scenario = {
  drive: async ({ member }) => {
    const uploaded = await uploadText(member, ' \n ');
    const { last_error } = await untilJob(member, uploaded.jobId, 'failed', CASE_TIMEOUT_MS);
    expect(last_error).include({ code: 'empty_document' });
    return { ...uploaded, isReadable: false };
  },
};

const cancel: Scenario = {
  faults: 'embedChunks:after_effect:hang',
  drive: async ({ member, stack }) => {
    const uploaded = await uploadText(member, content, chunking);
    await until('it embeds', async () => (await jobOf(member, uploaded.jobId)).stage === 'embed', CASE_TIMEOUT_MS);
    await stack.container.orchestrator.cancel(uploaded.jobId);
    await untilJob(member, uploaded.jobId, 'cancelled', CASE_TIMEOUT_MS);
    return { ...uploaded, isReadable: false };
  },
};

const park: Scenario = {
  drive: async ({ member, model, stack }) => {
    model.failEmbeddings(true, 401);
    const uploaded = await uploadText(member, content, chunking);
    await untilJob(member, uploaded.jobId, 'parked', CASE_TIMEOUT_MS);
    model.failEmbeddings(false);
    model.calls.length = 0;
    await until(
      'it goes on',
      async () => {
        // Its worker may die of this very call.
        await stack.container.orchestrator.retryParked(uploaded.jobId).catch(() => undefined);
        return (await jobOf(member, uploaded.jobId)).status === 'succeeded';
      },
      CASE_TIMEOUT_MS,
    );
    return { ...uploaded, isReadable: true };
  },
};

const jobOf = async (member: FaultCase['member'], jobId: string) =>
  (await member.get(`/jobs/${jobId}`, 200)).body as JobView;

/** For steps that the ingestion of a sound document does not take. */
const scenarios: Record<string, Scenario> = {
  recordFailure: fail,
  recordCancellation: cancel,
  recordParked: park,
  recordResumed: park,
};

const noDeps = null as never;
const steps = Object.keys(createIngestionActivities({ ingestion: noDeps }));

type Outcome = { digest: string | null; texts: string[]; slowestResumeMs: number };

/** Drives a scenario while its worker dies at each of these points in turn, and another takes its place at once. */
async function runCase(step: string, deaths: readonly (typeof positions)[number][]): Promise<Outcome> {
  const scenario = scenarios[step] ?? ingest;
  const own = await startFaultCase();
  try {
    const startWorker = (death?: string) => {
      const faults = death === undefined ? [] : [`${step}:${death}:kill`, scenario.faults ?? []].flat();
      return own.startWorker({ NODE_ENV: 'test', FAULTS: faults.join(',') });
    };
    const moments: number[] = [];
    const first = await startWorker(deaths[0]);
    const died = (async () => {
      let worker = first;
      for (const index of deaths.keys()) {
        expect(await worker.ended).equal('SIGKILL');
        moments.push(performance.now());
        worker = await startWorker(deaths[index + 1]);
      }
    })();
    died.catch(() => undefined);

    const { jobId, documentId, isReadable } = await scenario.drive(own);
    const { orchestrator, db } = own.stack.container;
    const isOpen = () => orchestrator.describe(jobId).then((state) => state === 'open');
    await until('its run is closed', async () => !(await isOpen()), CASE_TIMEOUT_MS);
    moments.push(performance.now());
    await until(`${step} was reached ${deaths.length} times`, async () => moments.length > deaths.length);
    await died;
    await expectInvariants(own.stack);
    return {
      digest: isReadable ? await contentDigest(db, documentId) : null,
      texts: embeddedTexts(own.model),
      slowestResumeMs: Math.max(0, ...moments.slice(1).map((moment, index) => moment - (moments[index] ?? 0))),
    };
  } finally {
    await own.close();
  }
}

describe('F1: a worker that dies', function () {
  this.timeout(CASE_TIMEOUT_MS * 3);
  let undisturbed: Promise<Outcome>;
  const outcomes = new Map<string, Promise<Outcome>>();

  before(async () => {
    // Once, and not by every worker for itself.
    await workflowBundle();
    const [reference, ...others] = sideBySide(CASES_AT_A_TIME, [
      () => runCase('parseDocument', []),
      ...steps.map((step) => () => runCase(step, positions)),
    ]);
    if (reference === undefined) return;
    undisturbed = reference;
    for (const [index, outcome] of others.entries()) outcomes.set(steps[index] ?? '', outcome);
  });

  for (const step of steps) {
    it(`before ${step}, after its effect, and after its answer: nothing is lost, doubled or asked for again`, async () => {
      const outcome = await outcomes.get(step);
      const reference = await undisturbed;
      if (outcome?.digest !== null) expect(outcome?.digest).equal(reference.digest);
      expect(outcome?.texts).length.at.most(reference.texts.length);
      measured(`${step} resumed within`, outcome?.slowestResumeMs ?? 0, 15_000);
    });
  }
});

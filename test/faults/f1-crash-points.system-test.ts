import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { CASE_TIMEOUT_MS, type Case, ingest, steps, uploadLongText } from '#test/support/fault-scenarios.ts';
import { embeddedTexts, forwardEmbeddings } from '#test/support/scripted-model.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

/** The everyday run has the one that is hardest to come back from: it is done, and nobody knows. */
const positions = isFullRun ? ['before', 'after_effect', 'after_return'] : ['after_effect'];

/**
 * A case mostly waits until Temporal misses its dead worker. The starts of workers take CPU, and must stay shorter than
 * that wait, so that the time until a step is resumed can be held against its limit.
 */
const CASES_AT_A_TIME = 5;

type Outcome = { digest: string | null; texts: string[]; slowestResumeMs: number };

/** Drives a scenario while its worker dies at each of these points in turn, and another takes its place at once. */
async function runCase({ step, scenario, queues }: Case, deaths: readonly string[]): Promise<Outcome> {
  const own = await startFaultCase(scenario.settings);
  try {
    const { db } = own.stack.container;
    const startWorker = (death?: string) => {
      const faults = death === undefined ? [] : [`${step}:${death}:kill`, scenario.faults ?? []].flat();
      return own.startWorker({ NODE_ENV: 'test', WORKER_QUEUES: queues, FAULTS: faults.join(',') });
    };
    const moments: number[] = [];
    let worker = await startWorker(deaths[0]);
    const dying = (async () => {
      for (const index of deaths.keys()) {
        expect(await worker.ended).equal('SIGKILL');
        moments.push(performance.now());
        worker = await startWorker(deaths[index + 1]);
      }
    })();
    dying.catch(() => undefined);

    const { jobId, documentId } = await scenario.drive(own);
    await untilClosed(own.stack.container, jobId);
    const endMs = performance.now();
    await until(`${step} is reached ${deaths.length} times`, async () => moments.length === deaths.length);
    await dying;
    await expectInvariants(own.stack);
    const gaps = [...moments, endMs].map((moment, index, all) => moment - (all[index - 1] ?? moment));
    return {
      digest: documentId === null ? null : await contentDigest(db, documentId),
      texts: embeddedTexts(own.model),
      slowestResumeMs: Math.max(...gaps),
    };
  } finally {
    await own.close();
  }
}

/** Kills the worker while a call of the model is under way, and those before it are stored. */
async function runCaseWithinStep(): Promise<Outcome & { inFlight: number }> {
  const own = await startFaultCase();
  try {
    const { db } = own.stack.container;
    const answered: string[] = [];
    const unanswered: string[] = [];
    own.model.behaveEmbedding((response, body: { input: string[] }) => {
      const isFirst = answered.length === 0;
      (isFirst ? answered : unanswered).push(...body.input);
      if (!isFirst) return;
      // One that breaks off is asked again, and that one is to be answered.
      response.once('close', () => {
        if (!response.writableFinished || response.statusCode !== 200) unanswered.push(...answered.splice(0));
      });
      forwardEmbeddings(body, response).catch(() => response.destroy());
    });
    const victim = await own.startWorker();
    const { documentId, jobId } = await uploadLongText(own);
    const countKept = async () => Number((await db('embeddings').count({ count: '*' }).first())?.count);
    const isWithin = async () =>
      answered.length > 0 && unanswered.length > 0 && (await countKept()) === answered.length;
    await until('a call is stored and another under way', isWithin);
    await victim.kill();
    const killedMs = performance.now();
    own.model.behaveEmbedding(null);
    await own.startWorker();
    await untilJob(own.member, jobId, 'succeeded');
    const slowestResumeMs = performance.now() - killedMs;
    await expectInvariants(own.stack);
    const digest = await contentDigest(db, documentId);
    return { digest, texts: embeddedTexts(own.model), slowestResumeMs, inFlight: unanswered.length };
  } finally {
    await own.close();
  }
}

describe('F1: a worker that dies', function () {
  this.timeout(CASE_TIMEOUT_MS * 4);
  let undisturbed: Promise<Outcome>;
  let withinStep: ReturnType<typeof runCaseWithinStep>;
  let outcomes: Promise<Outcome>[];

  before(async () => {
    // Once, and not by every worker for itself.
    await buildWorkflowBundle();
    const start = sideBySide(CASES_AT_A_TIME);
    undisturbed = start(() => runCase({ step: '', scenario: ingest, queues: 'ingestion' }, []));
    withinStep = start(runCaseWithinStep);
    outcomes = steps.map((one) => start(() => runCase(one, positions)));
  });

  steps.forEach(({ step }, index) => {
    it(`at ${step} (${positions.join(', ')}): nothing is lost, doubled or asked for again`, async () => {
      const reference = await undisturbed;
      const outcome = await outcomes[index];
      if (outcome === undefined) throw new Error('the case was not started');
      expect(outcome.digest ?? reference.digest).equal(reference.digest);
      expect(outcome.texts).length.at.most(reference.texts.length);
      measured(`${step}: resumed within`, outcome.slowestResumeMs, 15_000);
    });
  });

  it('while it embeds: what was in flight is asked for once more, and no other text', async () => {
    const reference = await undisturbed;
    const { digest, texts, inFlight, slowestResumeMs } = await withinStep;
    expect(digest).equal(reference.digest);
    expect(texts).length(reference.texts.length + inFlight);
    measured('in the middle of embedding: done within', slowestResumeMs, 20_000);
  });
});

import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { type Outcome, runCase } from '#test/support/fault-run-case.ts';
import { CASE_TIMEOUT_MS, ingest, steps, uploadLongText } from '#test/support/fault-scenarios.ts';
import { embeddedTexts, forwardEmbeddings } from '#test/support/scripted-model.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

/** Small runs have the hardest one: the step is done, and Temporal does not know. */
const positions = isFullRun ? ['before', 'after_effect', 'after_return'] : ['after_effect'];

/**
 * A case mostly waits until Temporal misses its dead worker. The starts of workers take CPU, and must stay shorter than
 * that wait, so that the time until a step is resumed can be held against its limit.
 */
const CASES_AT_A_TIME = 5;

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

describe('F1: when a worker dies', function () {
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
    it(`in ${step} (${positions.join(', ').replaceAll('_', ' ')}), the next worker loses, doubles and repeats nothing`, async () => {
      const reference = await undisturbed;
      const outcome = (await outcomes[index]) ?? expect.fail('the case was not started');
      expect(outcome.digest ?? reference.digest).equal(reference.digest);
      expect(outcome.texts).length.at.most(reference.texts.length);
      measured(`${step}: resumed within`, outcome.slowestResumeMs, 15_000);
    });
  });

  it('while it embeds, the next worker repeats only the embedding calls that were in flight', async () => {
    const reference = await undisturbed;
    const { digest, texts, inFlight, slowestResumeMs } = await withinStep;
    expect(digest).equal(reference.digest);
    expect(texts).length(reference.texts.length + inFlight);
    measured('in the middle of embedding: done within', slowestResumeMs, 20_000);
  });
});

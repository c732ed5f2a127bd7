import { expect } from 'chai';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';
import { type Outcome, runCase } from './scenario.ts';
import { ingest, steps } from './scenarios.ts';

/** Small runs have the hardest one: the step is done, and Temporal does not know. */
const positions = isFullRun ? ['before', 'after_effect', 'after_return'] : ['after_effect'];

/**
 * A case mostly waits until Temporal misses its dead worker. The starts of workers take CPU, and must stay shorter than
 * that wait, so that the time until a step is resumed can be held against its limit.
 */
const CASES_AT_A_TIME = 5;

describe('F1: when a worker dies', function () {
  this.timeout(960_000);
  let undisturbed: Promise<Outcome>;
  let outcomes: Promise<Outcome>[];

  before(async () => {
    // Once, and not by every worker for itself.
    await buildWorkflowBundle();
    const start = sideBySide(CASES_AT_A_TIME);
    undisturbed = start(() => runCase({ step: '', scenario: ingest, queues: 'ingestion' }, []));
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
});

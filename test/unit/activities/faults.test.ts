import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import { injectFaults } from '#activities/interceptors/faults.ts';
import type { InjectedFault } from '#src/config.ts';

const logger = new DefaultLogger('ERROR');
const step = (fault: Partial<InjectedFault>): InjectedFault => ({
  activity: 'embedChunks',
  position: 'before',
  kind: 'throw',
  code: 'service_unavailable',
  delayMs: 0,
  ...fault,
});

describe('injected faults in activities', () => {
  let effects = 0;
  beforeEach(() => {
    effects = 0;
  });
  const work = async () => {
    effects += 1;
    return effects;
  };

  function start(faults: InjectedFault[], activityType = 'embedChunks') {
    const interceptor = injectFaults(faults);
    return () => new MockActivityEnvironment({ activityType }, { interceptors: [interceptor], logger });
  }
  const outcome = async (run: Promise<unknown>) => {
    const failure = await run.then(() => ({ code: 'done' })).catch((error: unknown) => error);
    return Object(failure).code ?? String(failure);
  };

  it('occur before or after the activity does its work', async () => {
    for (const [position, done] of Object.entries({ before: 0, after_effect: 1 })) {
      const environment = start([step({ position: position as InjectedFault['position'] })])();
      expect(await outcome(environment.run(work))).equal('service_unavailable');
      expect(effects).equal(done);
    }
  });

  it('occur in the given execution of the given activity, or in every execution', async () => {
    for (const [fault, activityType, expected] of [
      [{ nth: 2 }, 'embedChunks', ['done', 'service_unavailable', 'done']],
      [{}, 'embedChunks', Array(3).fill('service_unavailable')],
      [{}, 'parseDocument', ['done', 'done', 'done']],
    ] as const) {
      const next = start([step(fault)], activityType);
      const outcomes: unknown[] = [];
      for (const _ of expected) outcomes.push(await outcome(next().run(work)));
      expect(outcomes).deep.equal(expected);
    }
  });

  it('can block an activity until it is cancelled', async () => {
    const environment = start([step({ kind: 'hang' })])();
    const run = outcome(environment.run(work));
    environment.cancel();
    expect(await run).match(/cancel/i);
    expect(effects).equal(0);
  });

  it('can delay the result of an activity', async () => {
    // Timers of the same length fire in the order in which they were set.
    let effectsBefore: number | undefined;
    setTimeout(() => (effectsBefore = effects), 50);
    expect(await outcome(start([step({ kind: 'delay', delayMs: 50 })])().run(work))).equal('done');
    expect({ effectsBefore, effects }).deep.equal({ effectsBefore: 0, effects: 1 });
  });
});

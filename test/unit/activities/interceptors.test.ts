import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import { recordRetriedErrors } from '#activities/interceptors/errors.ts';
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

  it('occur before the activity does its work or after it, as the fault says', async () => {
    for (const [position, done] of Object.entries({ before: 0, after_effect: 1 })) {
      const environment = start([step({ position: position as InjectedFault['position'] })])();
      expect(await outcome(environment.run(work))).equal('service_unavailable');
      expect(effects).equal(done);
    }
  });

  it('occur in one given execution of the given activity, or in each of its executions', async () => {
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

describe('errors of activities', () => {
  async function noted(failure: unknown, attempt: number, maximumAttempts?: number): Promise<unknown[]> {
    const notes: unknown[] = [];
    const recordRetriedError = async (jobId: string, fault: unknown) => void notes.push([jobId, fault]);
    const workflowExecution = { workflowId: 'ingest-1-1', runId: 'run' };
    const retryPolicy = maximumAttempts && { retryPolicy: { maximumAttempts } };
    const environment = new MockActivityEnvironment(
      { workflowExecution, attempt, ...retryPolicy },
      { interceptors: [recordRetriedErrors({ recordRetriedError })], logger },
    );
    const thrown = await environment.run(() => Promise.reject(failure)).catch((error: unknown) => error);
    expect(thrown).equal(failure);
    return notes;
  }

  const passing = ApplicationFailure.create({ type: 'model_unavailable', message: 'It is away.' });
  const note = ['ingest-1-1', { code: 'model_unavailable', message: 'It is away.' }];

  it('are recorded in the job if the activity is retried; otherwise the workflow records the failure', async () => {
    const damaged = ApplicationFailure.nonRetryable('Damaged.', 'corrupt_document');
    for (const [failure, attempt, maximumAttempts, expected] of [
      [passing, 1, 3, [note]],
      [passing, 7, undefined, [note]],
      [passing, 1, 1, []],
      [passing, 3, 3, []],
      [damaged, 1, 3, []],
      [new Error('cancelled'), 1, 3, []],
    ] as const) {
      expect(await noted(failure, attempt, maximumAttempts)).deep.equal(expected);
    }
  });
});

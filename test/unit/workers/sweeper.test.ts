import { mock } from 'node:test';
import { expect } from 'chai';
import { limitToOncePerDay, runDailyInBatches, skipWhileStillRunning } from '#workers/sweeper.ts';

describe('a daily sweep', () => {
  it('runs once a day, either as a whole or in batches, where each call runs the next batch', async () => {
    let runs = 0;
    const daily = limitToOncePerDay(async () => {
      runs += 1;
    });
    const begun: (number | null)[] = [];
    const inBatches = runDailyInBatches<number>(async (after) => {
      begun.push(after);
      return after === 2 ? null : (after ?? 0) + 1;
    });
    for (let turn = 0; turn < 6; turn++) await Promise.all([daily(), inBatches()]);
    expect([runs, begun]).deep.equal([1, [null, 1, 2]]);
  });

  it('starts again from the beginning one hour after a batch failed', async () => {
    mock.timers.enable({ apis: ['Date'] });
    const begun: (number | null)[] = [];
    const sweep = runDailyInBatches<number>(async (after) => {
      begun.push(after);
      if (after === 1) throw new Error('a table is locked');
      return 1;
    });
    for (let turn = 0; turn < 4; turn++) await sweep().catch(() => undefined);
    expect(begun).deep.equal([null, 1]);
    mock.timers.tick(60 * 60_000);
    await sweep();
    expect(begun).deep.equal([null, 1, null]);
    mock.timers.reset();
  });
});

describe('a background sweep', () => {
  it('does not block the caller, is not started again while it runs, and throws its error at the next call', async () => {
    const runs: PromiseWithResolvers<void>[] = [];
    const sweep = skipWhileStillRunning(() => {
      const run = Promise.withResolvers<void>();
      runs.push(run);
      return run.promise;
    });
    await sweep();
    await sweep();
    expect(runs).length(1);
    runs[0]?.resolve();
    await new Promise(setImmediate);
    await sweep();
    expect(runs).length(2);
    const failure = new Error('no room');
    runs[1]?.reject(failure);
    await new Promise(setImmediate);
    expect(await sweep().catch((error: unknown) => error)).equal(failure);
  });
});

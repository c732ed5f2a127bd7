import { mock } from 'node:test';
import { expect } from 'chai';
import { limitToOncePerDay, skipWhileStillRunning } from '#workers/sweeper.ts';

describe('a daily sweep', () => {
  it('runs once a day, and one hour after a failure', async () => {
    mock.timers.enable({ apis: ['Date'] });
    let runs = 0;
    const sweep = limitToOncePerDay(async () => {
      runs += 1;
      if (runs === 1) throw new Error('a table is locked');
    });
    const turn = async (hours: number) => {
      mock.timers.tick(hours * 60 * 60_000);
      for (let second = 0; second < 4; second++) await sweep().catch(() => undefined);
      return runs;
    };
    expect([await turn(0), await turn(1), await turn(23), await turn(1)]).deep.equal([1, 2, 2, 3]);
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

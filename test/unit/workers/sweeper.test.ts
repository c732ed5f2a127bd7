import { mock } from 'node:test';
import { expect } from 'chai';
import { aside, daily, dailyInParts } from '#workers/sweeper.ts';

describe('a daily sweep', () => {
  it('is done once, however often its turn comes', async () => {
    let runs = 0;
    const sweep = daily(async () => {
      runs += 1;
    });
    for (let turn = 0; turn < 3; turn++) await sweep();
    expect(runs).equal(1);
  });

  it('in parts does one each turn, from where the last one ended, and then rests', async () => {
    const begun: (number | null)[] = [];
    const sweep = dailyInParts<number>(async (after) => {
      begun.push(after);
      return after === 2 ? null : (after ?? 0) + 1;
    });
    for (let turn = 0; turn < 6; turn++) await sweep();
    expect(begun).deep.equal([null, 1, 2]);
  });

  it('whose part fails rests for an hour, and begins anew then', async () => {
    mock.timers.enable({ apis: ['Date'] });
    const begun: (number | null)[] = [];
    const sweep = dailyInParts<number>(async (after) => {
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

describe('a sweep aside', () => {
  it('is not waited for, and not begun again while it runs', async () => {
    let runs = 0;
    let end = () => {};
    const sweep = aside(() => {
      runs += 1;
      return new Promise<void>((resolve) => {
        end = resolve;
      });
    });
    await sweep();
    await sweep();
    expect(runs).equal(1);
    end();
    await new Promise(setImmediate);
    await sweep();
    expect(runs).equal(2);
  });

  it('tells its failure at its next turn', async () => {
    const sweep = aside(() => Promise.reject(new Error('no room')));
    await sweep();
    await new Promise(setImmediate);
    const failure = await sweep().catch((error: unknown) => error);
    expect(failure).instanceOf(Error);
  });
});

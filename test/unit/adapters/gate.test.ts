import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createFairGate, createGate } from '#src/adapters/gate.ts';
import { until } from '#test/support/until.ts';

describe('a gate', () => {
  function tasks() {
    const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
    const begun: number[] = [];
    const run = (index: number) => async () => {
      begun.push(index);
      await gates[index]?.promise;
    };
    return { begun, run, finish: (index: number) => gates[index]?.resolve() };
  }

  it('lets no more through than it has places, in the order in which they came', async () => {
    const { begun, run, finish } = tasks();
    const gate = createGate(2);
    const done = [0, 1, 2, 3].map((index) => gate(run(index)));
    expect(begun).to.deep.equal([0, 1]);
    finish(1);
    await done[1];
    finish(2);
    await done[2];
    expect(begun).to.deep.equal([0, 1, 2, 3]);
    finish(0);
    finish(3);
    await Promise.all(done);
  });

  it('goes on after a task that fails', async () => {
    const gate = createGate(1);
    await gate(() => Promise.reject(new Error('no'))).catch(() => undefined);
    expect(await gate(async () => 'yes')).to.equal('yes');
  });
});

describe('a fair gate', () => {
  it('starts the task of another owner before the rest of an owner with many', async () => {
    const begun: string[] = [];
    const ends: (() => void)[] = [];
    const run = (name: string) => () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    const gate = createFairGate(2);
    const done = ['a1', 'a2', 'a3', 'a4'].map((name) => gate('a', run(name)));
    await Promise.resolve();
    expect(begun, 'one place is left for others').deep.equal(['a1']);
    done.push(gate('b', run('b1')), gate('b', run('b2')), gate('c', run('c1')));
    for (let ended = 0; ended < 7; ended += 1) {
      await until('a task runs', async () => ends.length > ended);
      ends[ended]?.();
    }
    await Promise.all(done);
    expect(begun).deep.equal(['a1', 'b1', 'a2', 'b2', 'c1', 'a3', 'a4']);
  });

  it('gives an owner fewer places as soon as another has a task, and all of them again when it is alone', async () => {
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const gate = createFairGate(4, { maxRunningPerOwner: 4, maxRunningInCrowd: 1 });
    const add = (name: string) =>
      gate(name.slice(0, 1), () => {
        begun.push(name);
        return new Promise<void>((resolve) => ends.set(name, resolve));
      });
    const done = ['a1', 'a2', 'b1', 'b2', 'a3'].map(add);
    await setImmediate();
    expect(begun, 'a has begun alone').deep.equal(['a1', 'a2', 'b1']);
    ends.get('a1')?.();
    await done[0];
    await setImmediate();
    expect(begun, 'a2 still runs').deep.equal(['a1', 'a2', 'b1']);
    ends.get('a2')?.();
    await done[1];
    await setImmediate();
    expect(begun).deep.equal(['a1', 'a2', 'b1', 'a3']);
    ends.get('a3')?.();
    await done[4];
    await setImmediate();
    expect(begun, 'b is alone').deep.equal(['a1', 'a2', 'b1', 'a3', 'b2']);
    ends.get('b1')?.();
    ends.get('b2')?.();
    await Promise.all(done);
  });

  it('refuses the tasks of an owner that has too many waiting, and takes those of others', async () => {
    const gate = createFairGate(1, { bound: { maxWaitingPerOwner: 1, refusal: () => new Error('full') } });
    const { promise, resolve } = Promise.withResolvers<void>();
    const done = [gate('a', () => promise), gate('a', async () => {})];
    expect(await gate('a', async () => {}).catch((error: unknown) => error)).property('message', 'full');
    done.push(gate('b', async () => {}));
    resolve();
    await Promise.all(done);
  });

  it('goes on after a task that fails', async () => {
    const gate = createFairGate(1);
    await gate('a', () => Promise.reject(new Error('no'))).catch(() => undefined);
    expect(await gate('a', async () => 'yes')).equal('yes');
  });
});

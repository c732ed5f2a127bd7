import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createFairWorkQueue } from '#src/adapters/limits.ts';
import { until } from '#test/support/until.ts';

describe('fair queue', () => {
  it('starts the task of another owner before the rest of an owner with many', async () => {
    const begun: string[] = [];
    const ends: (() => void)[] = [];
    const run = (name: string) => () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    const queue = createFairWorkQueue(2);
    const done = ['a1', 'a2', 'a3', 'a4'].map((name) => queue('a', run(name)));
    await Promise.resolve();
    expect(begun, 'one place is left for others').deep.equal(['a1']);
    done.push(queue('b', run('b1')), queue('b', run('b2')), queue('c', run('c1')));
    for (let ended = 0; ended < 7; ended += 1) {
      await until('a task runs', async () => ends.length > ended);
      ends[ended]?.();
    }
    await Promise.all(done);
    expect(begun).deep.equal(['a1', 'b1', 'a2', 'b2', 'c1', 'a3', 'a4']);
  });

  it('limits an owner to fewer running tasks while another owner has tasks', async () => {
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const queue = createFairWorkQueue(4, { maxRunningPerOwner: 4, maxRunningInCrowd: 1 });
    const add = (name: string) =>
      queue(name.slice(0, 1), () => {
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

  it('rejects tasks of an owner that has too many waiting, and accepts those of others', async () => {
    const queue = createFairWorkQueue(1, { bound: { maxWaitingPerOwner: 1, refusal: () => new Error('full') } });
    const { promise, resolve } = Promise.withResolvers<void>();
    const done = [queue('a', () => promise), queue('a', async () => {})];
    expect(await queue('a', async () => {}).catch((error: unknown) => error)).property('message', 'full');
    done.push(queue('b', async () => {}));
    resolve();
    await Promise.all(done);
  });

  it('continues after a task that fails', async () => {
    const queue = createFairWorkQueue(1);
    await queue('a', () => Promise.reject(new Error('no'))).catch(() => undefined);
    expect(await queue('a', async () => 'yes')).equal('yes');
  });
});

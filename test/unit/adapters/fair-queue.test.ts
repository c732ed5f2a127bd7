import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createFairWorkQueue } from '#src/adapters/limits.ts';

/** A queue whose tasks are named by owner and number, and run until they are ended. */
function startQueue(...options: Parameters<typeof createFairWorkQueue>) {
  const queue = createFairWorkQueue(...options);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const add = (...names: string[]) => {
    for (const name of names) {
      void queue(name.slice(0, 1), () => {
        begun.push(name);
        return new Promise<void>((resolve) => ends.set(name, resolve));
      });
    }
    return setImmediate();
  };
  const end = (name: string | undefined) => {
    ends.get(name ?? '')?.();
    return setImmediate();
  };
  return { begun, add, end };
}

describe('a fair queue', () => {
  it('starts tasks of other owners before an owner with many waiting tasks has started all of its own', async () => {
    const { begun, add, end } = startQueue(2);
    await add('a1', 'a2', 'a3', 'a4');
    expect(begun, 'one slot is left for others').deep.equal(['a1']);
    await add('b1', 'b2', 'c1');
    for (let ended = 0; ended < 7; ended += 1) await end(begun[ended]);
    expect(begun).deep.equal(['a1', 'b1', 'a2', 'b2', 'c1', 'a3', 'a4']);
  });

  it('lowers the limit of running tasks per owner while more than one owner has tasks', async () => {
    const { begun, add, end } = startQueue(4, { maxRunningPerOwner: 4, maxRunningInCrowd: 1 });
    await add('a1', 'a2', 'b1', 'b2', 'a3');
    expect(begun, 'a has begun alone').deep.equal(['a1', 'a2', 'b1']);
    await end('a1');
    expect(begun, 'a2 still runs').deep.equal(['a1', 'a2', 'b1']);
    await end('a2');
    expect(begun).deep.equal(['a1', 'a2', 'b1', 'a3']);
    await end('a3');
    expect(begun, 'b is alone').deep.equal(['a1', 'a2', 'b1', 'a3', 'b2']);
    for (const name of ['b1', 'b2']) await end(name);
  });

  it('rejects tasks of an owner with too many waiting tasks, and accepts tasks of other owners', async () => {
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

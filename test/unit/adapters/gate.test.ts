import { expect } from 'chai';
import { createGate } from '#src/adapters/gate.ts';

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

  it('refuses beyond its bound, and takes again when there is room', async () => {
    const { begun, run, finish } = tasks();
    const gate = createGate(1, { maxWaiting: 1, refusal: () => new Error('full') });
    const done = [gate(run(0)), gate(run(1))];
    expect(await gate(run(2)).catch((error: unknown) => error))
      .to.be.an('error')
      .with.property('message', 'full');
    finish(0);
    await done[0];
    done.push(gate(run(3)));
    finish(1);
    finish(3);
    await Promise.all(done);
    expect(begun).to.deep.equal([0, 1, 3]);
  });
});

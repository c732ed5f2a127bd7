import { expect } from 'chai';
import { createReplayableBuffer } from '#src/modules/chat/stream.ts';
import { collect } from '#test/support/collect.ts';

describe('createReplayableBuffer', () => {
  it('gives every reader all items in order, whenever the reader starts', async () => {
    const buffer = createReplayableBuffer<number>();
    const early = collect(buffer.read());
    buffer.push(1);
    await Promise.resolve();
    buffer.push(2);
    const meanwhile = collect(buffer.read());
    buffer.push(3);
    buffer.close();
    const late = collect(buffer.read());
    expect(await Promise.all([early, meanwhile, late])).deep.equal([
      [1, 2, 3],
      [1, 2, 3],
      [1, 2, 3],
    ]);
  });

  it('ends at once if it was closed without items', async () => {
    const buffer = createReplayableBuffer<number>();
    buffer.close();
    expect(await collect(buffer.read())).deep.equal([]);
  });
});

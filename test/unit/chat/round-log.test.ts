import { expect } from 'chai';
import type { NumberedEvent } from '#src/modules/chat/chat.model.ts';
import { createRoundLog } from '#src/modules/chat/round-log.ts';
import { collect } from '#test/support/collect.ts';

describe('the log of a round', () => {
  it('ends with a failure behind all that any reader has got of this attempt, and before the next one', () => {
    const seqs = [0, 1].map((attempt) => {
      const recorded: NumberedEvent[] = [];
      createRoundLog(attempt, (event) => recorded.push(event)).end({ event: 'error', code: 'x', detail: '' });
      return recorded[0]?.seq;
    });
    expect(seqs).deep.equal([10_000_000, 20_000_000]);
    const next: NumberedEvent[] = [];
    createRoundLog(1, (event) => next.push(event)).token('A loan');
    expect(next[0]?.seq).equal(10_000_001);
  });

  it('has nothing behind the event that ends it, for readers and for those who come back', async () => {
    const recorded: NumberedEvent[] = [];
    const log = createRoundLog(0, (event) => recorded.push(event));
    log.token('A loan');
    log.end({ event: 'error', code: 'interrupted', detail: 'It was not finished.' });
    log.token(' is repaid.');
    log.end({ event: 'error', code: 'internal_error', detail: 'It went wrong.' });
    expect(recorded.map(({ seq, event }) => [seq, event])).deep.equal([
      [1, 'token'],
      [10_000_000, 'error'],
    ]);
    expect(await collect(log.read())).deep.equal(recorded);
  });
});

import { expect } from 'chai';
import type { NumberedRoundEvent } from '#src/modules/chat/chat.model.ts';
import { createRoundEventLog } from '#src/modules/chat/stream.ts';
import { collect } from '#test/support/collect.ts';

describe('createRoundEventLog', () => {
  it('numbers the error event after all events of its attempt and before those of the next attempt', () => {
    const seqs = [0, 1].map((attempt) => {
      const recorded: NumberedRoundEvent[] = [];
      createRoundEventLog(attempt, (event) => recorded.push(event)).end({ event: 'error', code: 'x', detail: '' });
      return recorded[0]?.seq;
    });
    expect(seqs).deep.equal([10_000_000, 20_000_000]);
    const next: NumberedRoundEvent[] = [];
    createRoundEventLog(1, (event) => next.push(event)).token('A loan');
    expect(next[0]?.seq).equal(10_000_001);
  });

  it('neither sends nor records events after the last one', async () => {
    const recorded: NumberedRoundEvent[] = [];
    const log = createRoundEventLog(0, (event) => recorded.push(event));
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

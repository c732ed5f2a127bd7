import { expect } from 'chai';
import type { NumberedEvent } from '#src/modules/chat/chat.model.ts';
import { createRoundLog } from '#src/modules/chat/round-log.ts';
import { collect } from '#test/support/collect.ts';

describe('the log of a round', () => {
  it('has nothing behind the event that ends it, for readers and for those who come back', async () => {
    const recorded: NumberedEvent[] = [];
    const log = createRoundLog(0, (event) => recorded.push(event));
    log.token('A loan');
    const last = log.nextSeq();
    log.end({ event: 'error', code: 'interrupted', detail: 'It was not finished.' });
    log.token(' is repaid.');
    log.end({ event: 'error', code: 'internal_error', detail: 'It went wrong.' });
    expect(recorded.map(({ seq, event }) => [seq, event])).deep.equal([
      [1, 'token'],
      [last, 'error'],
    ]);
    expect(await collect(log.read())).deep.equal(recorded);
  });
});

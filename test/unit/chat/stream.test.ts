import { expect } from 'chai';
import type { NumberedRoundEvent } from '#src/modules/chat/chat.model.ts';
import { createRoundEventLog, watchAnswerReaders } from '#src/modules/chat/stream.ts';
import { collect } from '#test/support/collect.ts';

describe('the event log of a chat round', () => {
  const error = { event: 'error', code: 'interrupted', detail: 'It was not finished.' } as const;
  const start = (attempt: number) => {
    const recorded: NumberedRoundEvent[] = [];
    return { recorded, log: createRoundEventLog(attempt, (event) => recorded.push(event)) };
  };

  it('neither sends nor records events after an error event, which gets the highest number', async () => {
    const { log, recorded } = start(0);
    log.token('A loan');
    log.end(error);
    log.token(' is repaid.');
    log.end({ ...error, code: 'internal_error' });
    expect(recorded.map(({ seq, event }) => [seq, event])).deep.equal([
      [1, 'token'],
      [10_000_000, 'error'],
    ]);
    expect(await collect(log.read())).deep.equal(recorded);

    const next = start(1);
    next.log.token('A loan');
    next.log.end(error);
    expect(next.recorded.map(({ seq }) => seq)).deep.equal([10_000_001, 20_000_000]);
  });
});

describe('the watch for readers of an answer', () => {
  const timing = { graceSeconds: 0.001, checkEveryMs: 1 };

  /** Watches with these answers to one lookup after the other. */
  function watch(...answers: (boolean | Error)[]) {
    const asked: number[] = [];
    const isFollowed = async (_stream: unknown, seconds: number): Promise<boolean> => {
      const answer = answers[asked.length];
      asked.push(seconds);
      if (answer instanceof Error || answer === undefined) throw answer ?? new Error('looked up too often');
      return answer;
    };
    const stream = { chatId: 'chat', round: 1, streamId: 'stream' };
    const readers = watchAnswerReaders(stream, { isFollowed }, { warn: () => undefined }, timing);
    const aborted = new Promise((resolve) => readers.signal.addEventListener('abort', resolve));
    return { readers, asked, aborted };
  }

  it('aborts the answer at the first lookup that finds no reader, and makes no further lookup', async () => {
    const { readers, asked, aborted } = watch(true, new Error('The database is away.'), true, false);
    readers.readBy(AbortSignal.abort());
    await aborted;
    expect(readers.signal.reason).include({ code: 'interrupted' });
    expect(asked).deep.equal(Array(4).fill(timing.graceSeconds));
  });

  it('makes no lookup while the first reader is connected, nor after the answer has ended', async () => {
    const { readers, asked } = watch();
    const reading = new AbortController();
    readers.readBy(reading.signal);
    readers.stop();
    reading.abort();
    const other = watch(false);
    other.readers.readBy(AbortSignal.abort());
    await other.aborted;
    expect(asked).deep.equal([]);
    expect(readers.signal.aborted).equal(false);
  });
});

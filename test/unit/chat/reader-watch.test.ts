import { expect } from 'chai';
import { watchReaders } from '#src/modules/chat/reader-watch.ts';

describe('the readers of an answer', () => {
  const stream = { chatId: 'chat', round: 1, streamId: 'stream' };
  const patience = { seconds: 0.001, lookEveryMs: 1 };
  const silent = { warn: () => undefined };

  /** What is looked up, one answer after the other. */
  function script(...answers: (boolean | Error)[]) {
    const asked: number[] = [];
    const isFollowed = async (_stream: unknown, seconds: number): Promise<boolean> => {
      const answer = answers[asked.length];
      asked.push(seconds);
      if (answer instanceof Error || answer === undefined) throw answer ?? new Error('asked once more');
      return answer;
    };
    return { asked, isFollowed };
  }
  const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve));

  it('are gone at the first look at which nobody has read on, and it is asked no more', async () => {
    const rounds = script(true, new Error('The database is away.'), true, false);
    const readers = watchReaders(stream, rounds, silent, patience);
    const gone = aborted(readers.signal);
    readers.readBy(AbortSignal.abort());
    await gone;
    expect(readers.signal.reason).include({ code: 'interrupted' });
    expect(rounds.asked).deep.equal(Array(4).fill(patience.seconds));
  });

  it('are not asked about while the first one reads, nor when the answer is over', async () => {
    const rounds = script();
    const reading = new AbortController();
    const readers = watchReaders(stream, rounds, silent, patience);
    readers.readBy(reading.signal);
    readers.stop();
    reading.abort();
    const other = watchReaders(stream, script(false), silent, patience);
    const gone = aborted(other.signal);
    other.readBy(AbortSignal.abort());
    await gone;
    expect(rounds.asked).deep.equal([]);
    expect(readers.signal.aborted).equal(false);
  });
});

import { expect } from 'chai';
import { watchAnswerReaders } from '#src/modules/chat/stream.ts';

describe('watchAnswerReaders', () => {
  const stream = { chatId: 'chat', round: 1, streamId: 'stream' };
  const timing = { graceSeconds: 0.001, checkEveryMs: 1 };
  const silent = { warn: () => undefined };

  /** Answers one lookup after the other. */
  function script(...answers: (boolean | Error)[]) {
    const asked: number[] = [];
    const isFollowed = async (_stream: unknown, seconds: number): Promise<boolean> => {
      const answer = answers[asked.length];
      asked.push(seconds);
      if (answer instanceof Error || answer === undefined) throw answer ?? new Error('looked up too often');
      return answer;
    };
    return { asked, isFollowed };
  }
  const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve));

  it('aborts at the first lookup without a reader, and stops looking up', async () => {
    const rounds = script(true, new Error('The database is away.'), true, false);
    const readers = watchAnswerReaders(stream, rounds, silent, timing);
    const gone = aborted(readers.signal);
    readers.readBy(AbortSignal.abort());
    await gone;
    expect(readers.signal.reason).include({ code: 'interrupted' });
    expect(rounds.asked).deep.equal(Array(4).fill(timing.graceSeconds));
  });

  it('looks up nothing while the first reader is connected, nor after the answer has ended', async () => {
    const rounds = script();
    const reading = new AbortController();
    const readers = watchAnswerReaders(stream, rounds, silent, timing);
    readers.readBy(reading.signal);
    readers.stop();
    reading.abort();
    const other = watchAnswerReaders(stream, script(false), silent, timing);
    const gone = aborted(other.signal);
    other.readBy(AbortSignal.abort());
    await gone;
    expect(rounds.asked).deep.equal([]);
    expect(readers.signal.aborted).equal(false);
  });
});

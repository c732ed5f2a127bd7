import { mock } from 'node:test';
import { expect } from 'chai';
import pino from 'pino';
import { appError } from '#src/errors.ts';
import type { NumberedRoundEvent } from '#src/modules/chat/chat.model.ts';
import { keepRoundLease } from '#src/modules/chat/rounds.ts';
import {
  createRoundEventLog,
  createRoundEventRecorder,
  watchAnswerReaders,
  watchUserRights,
} from '#src/modules/chat/stream.ts';
import { collect } from '#test/support/collect.ts';
import { anActor } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

const outage = new Error('The database is away.');
const answerInTurn = (answers: unknown[]) => async () => {
  const answer = answers.shift();
  if (answer instanceof Error) throw answer;
  return answer as never;
};

describe('the event log of a chat round', () => {
  const error = { event: 'error', code: 'interrupted', detail: 'It was not finished.' } as const;
  const start = (attempt: number) => {
    const recorded: NumberedRoundEvent[] = [];
    return { recorded, log: createRoundEventLog(attempt, (event) => recorded.push(event)) };
  };

  it('gives an error event the highest number, and neither sends nor records any event after it', async () => {
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
    const answer = answerInTurn(answers);
    const isFollowed = (_stream: unknown, seconds: number) => {
      asked.push(seconds);
      return answer();
    };
    const stream = { chatId: 'chat', round: 1, streamId: 'stream' };
    const readers = watchAnswerReaders(stream, { isFollowed }, { warn: () => undefined }, timing);
    const aborted = new Promise((resolve) => readers.signal.addEventListener('abort', resolve));
    return { readers, asked, aborted };
  }

  it('aborts the answer at the first lookup that finds no reader, and makes no further lookup', async () => {
    const { readers, asked, aborted } = watch(true, outage, true, false);
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

describe('the recorder of chat round events', () => {
  const [good, bad] = ['good', 'bad'].map((streamId) => ({ orgId: 'org', chatId: 'chat', round: 1, streamId }));

  it('tries again to store events after an outage, and loses only events that the database rejects', async () => {
    const stored: [streamId: string, seqs: number[]][] = [];
    const warned: unknown[] = [];
    let attempts = 0;
    const recorder = createRoundEventRecorder({
      events: {
        insert: async (batches) => {
          attempts += 1;
          if (attempts === 1) throw outage;
          if (batches.some(({ streamId }) => streamId === 'bad')) throw new Error('The database says no.');
          for (const { streamId, events } of batches) stored.push([streamId, events.map(({ seq }) => seq)]);
        },
      },
      isOutage: (error) => error === outage,
      logger: { warn: (_: unknown, message?: string) => void warned.push(message) },
    });
    const record = (stream = good, seq = 1) => stream && recorder.record(stream, { event: 'token', text: 'a', seq });
    record();
    record(bad);
    record(good, 2);
    await until('the database has rejected the bad events', async () => warned.length === 2);
    record(good, 3);
    await recorder.close();
    expect(stored).deep.equal([
      ['good', [1, 2]],
      ['good', [3]],
    ]);
    expect(warned).deep.equal([
      'storing events of answers failed, retrying',
      'the database rejected events of an answer; the events are lost',
    ]);
  });
});

describe('while an answer is written', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
  afterEach(() => mock.timers.reset());

  it("a failed check of the user's rights is repeated later, and is logged unless the session has ended", async () => {
    const warned: unknown[] = [];
    const rights = watchUserRights(anActor(), {
      findActor: answerInTurn([outage, appError('invalid_token'), null]),
      onLoss: async () => null,
      logger: { warn: (fields: unknown) => void warned.push(Object(fields).err) },
    });
    for (let checks = 0; checks < 3; checks += 1) {
      expect(rights.signal.aborted).equal(false);
      mock.timers.tick(2_000);
      await new Promise(setImmediate);
    }
    expect(rights.signal.reason).include({ code: 'account_disabled' });
    expect(warned).deep.equal([outage]);
    rights.stop();
  });

  it('the lease of the round is renewed, also after a failed renewal, until another process holds it', async () => {
    const answers = [true, outage, false];
    const renewLease = answerInTurn(answers);
    const lease = keepRoundLease({ chatId: 'c', round: 1 }, 'us', { renewLease }, pino({ level: 'silent' }));
    for (let left = 2; left >= 0; left -= 1) {
      expect(lease.signal.aborted).equal(false);
      while (answers.length > left) mock.timers.tick(1_000);
      await new Promise(setImmediate);
    }
    expect(lease.signal.reason).include({ code: 'interrupted' });
    lease.stop();
  });
});

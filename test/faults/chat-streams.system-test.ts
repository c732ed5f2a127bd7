import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { probedSettings, settledHeapBytes } from '#test/support/memory-of.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';

type Api = ServiceProcess & { baseUrl: string };
/** The very text of an event, and its number. */
type Told = { id: string; text: string };
type Reader = {
  question: string;
  leavesAfter: number[];
  comesBack: boolean;
  chatId: string;
  told: Told[];
  looks: number;
};

const streams = isFullRun ? 200 : 40;
const heapSlackBytes = 20 * 1024 ** 2;

describe(`${streams} answers that are read at the same time, by readers who leave and come back`, function () {
  this.timeout(isFullRun ? 600_000 : 180_000);
  const random = seeded(runSeed);
  let own: FaultCase;
  let apis: [Api, Api];
  let agentId: string;

  before(async () => {
    own = await startFaultCase();
    agentId = await aPublishedAgent(own.member);
    // One user opens more streams and requests than the limits allow.
    const settings = { ...probedSettings, CONCURRENT_STREAMS: 'off', CONCURRENT_REQUESTS: 'off' };
    apis = await Promise.all([startApiProcess(own.stack, settings), startApiProcess(own.stack, settings)]);
  });
  after(async () => {
    await Promise.all(apis.map((api) => api.stop()));
    await own.close();
  });

  /** Some 6 kB in uneven pieces, the same for the same question. */
  function piecesOf(question: string): string[] {
    const lengths = seeded(question.length + Number(/\d+/.exec(question)?.[0] ?? 0));
    return Array.from({ length: 60 }, (_, index) => `${index} "é" ${'words '.repeat(lengths.between(1, 30))}`);
  }

  /** Reads until the end, or until so many events have come. */
  async function read(response: Response, told: Told[], upTo: number, leaving: AbortController): Promise<void> {
    for await (const { id = '', event, data } of readEvents(response)) {
      told.push({ id, text: JSON.stringify({ event, data }) });
      if (event !== 'token' || told.length < upTo) continue;
      leaving.abort();
      return;
    }
  }

  async function run(reader: Reader): Promise<void> {
    await delay(random.between(0, 2_000));
    let response: Response;
    for (let look = 0; ; look += 1) {
      const leaving = new AbortController();
      const at = own.member.at(random.pick(apis).baseUrl);
      if (look === 0) {
        response = await at.raw('/chat/stream', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ agent_id: agentId, message: reader.question, enable_rag: false }),
          signal: leaving.signal,
        });
        expect(response.status).equal(200);
        reader.chatId = response.headers.get('content-location')?.split('/')[2] ?? '';
      } else {
        const id = reader.told.at(-1)?.id;
        response = await at.raw(`/chat/${reader.chatId}/stream`, {
          headers: id === undefined ? {} : { 'last-event-id': id },
          signal: leaving.signal,
        });
        expect(response.status).equal(200);
      }
      reader.looks += 1;
      const leavesAfter = reader.leavesAfter[look];
      const upTo = leavesAfter === undefined ? Number.POSITIVE_INFINITY : reader.told.length + leavesAfter;
      await read(response, reader.told, upTo, leaving);
      const isOver = !reader.told.at(-1)?.text.startsWith('{"event":"token"');
      if (isOver || (leavesAfter !== undefined && !reader.comesBack)) return;
      if (leavesAfter === undefined) throw new Error('a stream ended without a last event');
      await delay(random.between(0, 500));
    }
  }

  async function runAll(count: number, wave: string): Promise<Reader[]> {
    const readers = Array.from({ length: count }, (_, index): Reader => {
      const leavesAfter = Array.from({ length: random.between(0, 3) }, () => random.between(1, 30));
      const question = `How is the ${wave} loan number ${index} repaid?`;
      return { question, leavesAfter, comesBack: random.next() > 0.15, chatId: '', told: [], looks: 0 };
    });
    await Promise.all(readers.map(run));
    const open = () => own.stack.container.db('rounds').where({ status: 'open' }).first();
    await until('every answer is written', async () => !(await open()));
    return readers;
  }

  it('tells each of them everything once, stores each answer once, and leaves nothing behind', async () => {
    own.model.behave(({ messages }) => {
      const question = messages.at(-1)?.content.match(/How is the \w+ loan number \d+ repaid\?/)?.[0] ?? '';
      return { kind: 'answer', text: piecesOf(question), everyMs: 40 };
    });
    // What is loaded and compiled at the first time stays.
    await runAll(10, 'first');
    const heaps = await Promise.all(apis.map((api) => settledHeapBytes(api, () => true)));

    const readers = await runAll(streams, 'second');
    const rounds = await own.stack.container.db<Round>('rounds');
    for (const { question, chatId, told, leavesAfter, comesBack } of readers) {
      const stored = rounds.filter(({ userContent }) => userContent === question);
      expect(stored.map(({ status, round }) => ({ status, round }))).deep.equal([{ status: 'complete', round: 1 }]);
      expect(stored[0]?.assistantReply).equal(piecesOf(question).join(''));

      expect(told.map(({ id }) => id)).deep.equal(told.map((_, index) => `1:${index + 1}`));
      // Who reads it now from its beginning gets, byte by byte, what the others got in parts.
      const whole: Told[] = [];
      const again = await own.member.raw(`/chat/${chatId}/stream`);
      await read(again, whole, Number.POSITIVE_INFINITY, new AbortController());
      expect(told).deep.equal(whole.slice(0, told.length));
      if (comesBack || leavesAfter.length === 0) expect(told).length(whole.length);
      const ends = whole.filter(({ text }) => !text.startsWith('{"event":"token"'));
      expect(ends).deep.equal(whole.slice(-1));
      expect(ends[0]?.text).match(/^\{"event":"done"/);
    }

    for (const [index, api] of apis.entries()) {
      const before = heaps[index] ?? 0;
      const after = await settledHeapBytes(api, (heap) => heap - before < heapSlackBytes);
      note(`heap of process ${index + 1} ${((after - before) / 1024 ** 2).toFixed(1)} MB more`);
      expect(after - before).below(heapSlackBytes);
    }
    const returns = readers.reduce((sum, { looks }) => sum + looks - 1, 0);
    note(`${streams} streams, ${returns} returns`);
  });
});

import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { startApiProcess } from '#test/support/child-processes.ts';
import { type ApiClient, readEvents, type StreamEvent } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, measured, note } from '#test/support/fault-run.ts';
import { probedSettings, settledHeapBytes } from '#test/support/memory-of.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';

/** A message that a process was sent before it died, and the events of its stream: the first accepts the message. */
type Sent = { path: '/chat' | '/chat/stream'; message: string; got: StreamEvent[]; chatId: string | null };

describe('F4: when an API process dies while it answers,', function () {
  this.timeout(isFullRun ? 600_000 : 120_000);
  const random = seeded(runSeed);
  const answer = Array.from({ length: 40 }, (_, index) => `word${index} `);
  const interrupted = { errorCode: 'interrupted', assistantReply: null };
  let own: FaultCase;
  let agentId: string;

  before(async () => {
    own = await startFaultCase();
    agentId = await aPublishedAgent(own.member);
    await own.startWorker();
  });
  after(() => own.close());

  const rounds = () => own.stack.container.db<Round>('rounds');
  const send = (api: ApiClient, { path, message }: Sent): Promise<Response> =>
    api.raw(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': message.replaceAll(' ', '-') },
      body: JSON.stringify({ agent_id: agentId, message }),
    });

  /** Sends the message, and reads for as long as the process lives. */
  async function sendAndRead(api: ApiClient, sent: Sent): Promise<void> {
    const response = await send(api, sent);
    if (sent.path === '/chat') return;
    sent.chatId = response.headers.get('content-location')?.split('/')[2] ?? null;
    for await (const event of readEvents(response)) sent.got.push(event);
  }

  /** Continues a stream at another process, which says that it was interrupted. */
  async function readOn({ chatId, got }: Sent): Promise<void> {
    const headers: Record<string, string> = { 'last-event-id': got.at(-1)?.id ?? '' };
    const rest = await collect(readEvents(await own.member.raw(`/chat/${chatId}/stream`, { headers })));
    expect(rest.filter(({ event }) => event !== 'token')).length(1);
    expect(rest.at(-1)).deep.include({ event: 'error' }).nested.property('data.code', 'interrupted');
  }

  /** Sends the message again with its key: it is answered once, in the chat where it was. */
  async function sendAgain(sent: Sent, before: readonly Round[]): Promise<void> {
    const response = await until('the key is free', async () => {
      const again = await send(own.member, sent);
      if (again.status !== 409) return again;
      await again.body?.cancel();
      return null;
    });
    expect(response.status).equal(sent.path === '/chat' ? 201 : 200);
    const done = sent.path === '/chat' ? await response.json() : (await collect(readEvents(response))).at(-1)?.data;
    const { chat_id, reply } = chatMessageSchema.parse(done);
    expect(reply).equal(answer.join(''));
    const first = before.find(({ userContent }) => userContent === sent.message);
    if (first !== undefined) expect(chat_id).equal(first.chatId);
  }

  /** Kills an API process that is answering twelve messages. @returns how many answers were cut */
  async function killAmidAnswers(moment: number): Promise<number> {
    const api = await startApiProcess(own.stack);
    const all = Array.from({ length: 12 }, (_, index): Sent => {
      const message = `How is loan ${moment}-${index} repaid?`;
      return { path: index % 2 === 0 ? '/chat' : '/chat/stream', message, got: [], chatId: null };
    });
    const ofAll = () =>
      rounds().whereIn(
        'userContent',
        all.map(({ message }) => message),
      );
    own.model.behave(() => ({ kind: 'answer', text: answer, everyMs: 50 }));
    const reading = all.map(async (sent, index) => {
      await delay(index < 6 ? 0 : random.between(0, 400));
      await sendAndRead(own.member.at(api.baseUrl), sent).catch(() => undefined);
    });
    await until('a stream is read', async () => all.some(({ got }) => got.length > 0));
    await delay(random.between(0, 300));
    await api.kill();
    const diedAt = Date.now();
    await Promise.all(reading);

    const accepted = all.filter(({ got }) => got.length > 0);
    for (const { chatId, message } of accepted) {
      const { body } = await own.member.get(`/chat/${chatId}`, 200);
      expect(body).nested.include({ 'messages[0].content': message });
    }
    const readings = accepted.filter(({ got }) => got.at(-1)?.event === 'token').map(readOn);
    const before = await ofAll();
    await until('no round is open', async () => !(await rounds().where({ status: 'open' }).first()));
    measured('ended after', Date.now() - diedAt, 20_000);
    await Promise.all(readings);
    const ended = await ofAll();
    expect(ended).length(before.length);
    for (const round of ended) {
      if (round.status === 'error') expect(round).include(interrupted);
      else expect(round).include({ status: 'complete', assistantReply: answer.join('') });
    }

    await Promise.all(all.map((sent) => sendAgain(sent, before)));
    const answered = (await ofAll()).map(({ status, round }) => ({ status, round }));
    expect(answered).deep.equal(all.map(() => ({ status: 'complete', round: 1 })));
    return ended.filter(({ status }) => status === 'error').length;
  }

  it('no half answer is stored, no message is lost, and a message that is sent again is answered once', async () => {
    let cut = 0;
    for (let moment = 1; moment <= (isFullRun ? 5 : 1); moment += 1) cut += await killAmidAnswers(moment);
    expect(cut, 'answers that were cut').above(0);
    await until('everything is scored', async () => !(await rounds().whereNull('scoredAt').first()));
    await expectInvariants(own.stack);
  });

  it('a round with a running tool ends in an error, and the tool runs anew when the message is sent again', async () => {
    const message = 'How long does this calculation take?';
    const calculates = (expression: string) =>
      own.model.behave(({ messages }) =>
        messages.at(-1)?.role === 'tool'
          ? { kind: 'answer', text: 'So long.' }
          : { kind: 'call', calls: [{ name: 'math_evaluate', args: { expression } }] },
      );
    const calculator = await aPublishedAgent(own.member, { enabled_tools: ['math.evaluate'] });
    const api = await startApiProcess(own.stack);
    calculates('f(n) = n < 1 ? 0 : f(n - 1) + f(n - 1); f(60)');
    const lost = own.member.at(api.baseUrl).post('/chat', { agent_id: calculator, message }, 201);
    lost.catch(() => undefined);
    await until('the tool is called', async () => own.model.requests.length > 0 && own.model.openStreams() === 0);
    await api.kill();
    const closed = () => rounds().where({ userContent: message, status: 'error' }).first();
    const round = await until('the round is closed', closed);
    expect(round).include(interrupted).and.deep.include({ toolCalls: [] });
    calculates('1 + 1');
    const again = await own.member.post('/chat', { chat_id: round.chatId, message }, 200);
    const { reply, tool_calls } = chatMessageSchema.parse(again.body);
    expect(reply).equal('So long.');
    expect(tool_calls[0]).include({ status: 'ok', result_preview: '2' });
  });
});

/** The text of an event, and its number. */
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
const isToken = ({ text }: Told) => text.startsWith('{"event":"token"');

describe(`${streams} answers that are read at the same time by readers who leave and come back`, function () {
  this.timeout(isFullRun ? 600_000 : 180_000);
  const random = seeded(runSeed);
  let own: FaultCase;
  let apis: [Awaited<ReturnType<typeof startApiProcess>>, Awaited<ReturnType<typeof startApiProcess>>];
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
  async function read(response: Response, told: Told[], upTo = Number.POSITIVE_INFINITY, leave?: () => void) {
    expect(response.status).equal(200);
    for await (const { id = '', event, data } of readEvents(response)) {
      told.push({ id, text: JSON.stringify({ event, data }) });
      if (event === 'token' && told.length >= upTo) return leave?.();
    }
  }

  async function run(reader: Reader): Promise<void> {
    await delay(random.between(0, 2_000));
    for (;;) {
      const leaving = new AbortController();
      const { signal } = leaving;
      const at = own.member.at(random.pick(apis).baseUrl);
      const leavesAfter = reader.leavesAfter[reader.looks];
      const headers: Record<string, string> = { 'last-event-id': reader.told.at(-1)?.id ?? '' };
      const response =
        reader.looks > 0
          ? await at.raw(`/chat/${reader.chatId}/stream`, { headers, signal })
          : await at.raw('/chat/stream', {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ agent_id: agentId, message: reader.question, enable_rag: false }),
              signal,
            });
      reader.chatId ||= response.headers.get('content-location')?.split('/')[2] ?? '';
      reader.looks += 1;
      const upTo = leavesAfter === undefined ? undefined : reader.told.length + leavesAfter;
      await read(response, reader.told, upTo, () => leaving.abort());
      const isOver = !isToken(reader.told.at(-1) ?? expect.fail('no event came'));
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

  it('reach each reader complete and without repetition, are stored once, and leave no memory in use', async () => {
    own.model.behave(({ messages }) => {
      const question = messages.at(-1)?.content.match(/How is the \w+ loan number \d+ repaid\?/)?.[0] ?? '';
      return { kind: 'answer', text: piecesOf(question), everyMs: 40 };
    });
    // Code that is loaded and compiled the first time stays in memory.
    await runAll(10, 'first');
    const heaps = await Promise.all(apis.map((api) => settledHeapBytes(api, () => true)));

    const readers = await runAll(streams, 'second');
    const rounds = await own.stack.container.db<Round>('rounds');
    for (const { question, chatId, told, leavesAfter, comesBack } of readers) {
      const stored = rounds.filter(({ userContent }) => userContent === question);
      expect(stored.map(({ status, round }) => ({ status, round }))).deep.equal([{ status: 'complete', round: 1 }]);
      expect(stored[0]?.assistantReply).equal(piecesOf(question).join(''));

      expect(told.map(({ id }) => id)).deep.equal(told.map((_, index) => `1:${index + 1}`));
      // A reader from the beginning gets now, byte by byte, what the others got in parts.
      const whole: Told[] = [];
      await read(await own.member.raw(`/chat/${chatId}/stream`), whole);
      expect(told).deep.equal(whole.slice(0, told.length));
      if (comesBack || leavesAfter.length === 0) expect(told).length(whole.length);
      const ends = whole.filter((event) => !isToken(event));
      expect(ends).deep.equal(whole.slice(-1));
      expect(ends[0]?.text).match(/^\{"event":"done"/);
    }

    for (const [index, api] of apis.entries()) {
      const before = heaps[index] ?? 0;
      const after = await settledHeapBytes(api, (heap) => heap - before < heapSlackBytes);
      note(`heap of process ${index + 1} ${((after - before) / 1024 ** 2).toFixed(1)} MB more`);
      expect(after - before).below(heapSlackBytes);
    }
    note(`${streams} streams, ${readers.reduce((sum, { looks }) => sum + looks - 1, 0)} returns`);
  });
});

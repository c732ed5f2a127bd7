import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import type { ApiClient } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents, type StreamEvent } from '#test/support/event-stream.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';

/** One question that a process was asked before it died. */
type Asked = {
  path: '/chat' | '/chat/stream';
  message: string;
  key: string;
  /** Events of a stream: with the first one the message is taken. */
  got: StreamEvent[];
  chatId: string | null;
};

describe('F4: an API that dies while it answers', function () {
  this.timeout(isFullRun ? 600_000 : 120_000);
  const random = seeded(runSeed);
  const answer = Array.from({ length: 40 }, (_, index) => `word${index} `);
  let own: FaultCase;
  let agentId: string;
  let failed: number;

  before(async () => {
    own = await startFaultCase();
    agentId = await aPublishedAgent(own.member);
    await own.startWorker();
  });
  after(() => own.close());

  const rounds = () => own.stack.container.db<Round>('rounds');

  function send(api: ApiClient, { path, message, key }: Asked): Promise<Response> {
    return api.raw(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ agent_id: agentId, message }),
    });
  }

  /** Asks, and reads as far as the process lives. */
  async function askIt(api: ApiClient, asked: Asked): Promise<void> {
    const response = await send(api, asked);
    if (asked.path === '/chat') return;
    asked.chatId = response.headers.get('content-location')?.split('/')[2] ?? null;
    for await (const event of readEvents(response)) asked.got.push(event);
  }

  /** What another process tells him who was in the middle of a stream. */
  async function readOn({ chatId, got }: Asked): Promise<void> {
    const id = got.at(-1)?.id;
    const response = await own.member.raw(`/chat/${chatId}/stream`, {
      headers: id === undefined ? {} : { 'last-event-id': id },
    });
    const rest = await collect(readEvents(response));
    expect(rest.filter(({ event }) => event !== 'token')).length(1);
    expect(rest.at(-1)).deep.include({ event: 'error' }).nested.property('data.code', 'interrupted');
  }

  async function dies(api: ServiceProcess & { baseUrl: string }, moment: number): Promise<void> {
    const all = Array.from({ length: 12 }, (_, index): Asked => {
      const [path, name] = [index % 2 === 0 ? '/chat' : '/chat/stream', `${moment}-${index}`] as const;
      return { path, message: `How is loan ${name} repaid?`, key: `asked-${name}`, got: [], chatId: null };
    });
    own.model.behave(() => ({ kind: 'answer', text: answer, everyMs: 50 }));
    const reading = all.map(async (asked, index) => {
      await delay(index < 6 ? 0 : random.between(0, 400));
      await askIt(own.member.at(api.baseUrl), asked).catch(() => undefined);
    });
    await until('somebody reads', async () => all.some(({ got }) => got.length > 0));
    await delay(random.between(0, 300));
    await api.kill();
    const diedAt = Date.now();
    await Promise.all(reading);

    // With the first event the message was taken: now, and not only when somebody has swept up.
    const taken = all.filter(({ got }) => got.length > 0);
    for (const { chatId, message } of taken) {
      const { body } = await own.member.get(`/chat/${chatId}`, 200);
      expect(body).nested.include({ 'messages[0].content': message });
    }
    const readings = taken.filter(({ got }) => got.at(-1)?.event === 'token').map(readOn);
    const messages = all.map(({ message }) => message);
    const before = await rounds().whereIn('userContent', messages);
    await until('no round is open', async () => !(await rounds().where({ status: 'open' }).first()));
    measured('ended after', Date.now() - diedAt, 20_000);
    await Promise.all(readings);
    const ended = await rounds().whereIn('userContent', messages);
    expect(ended).length(before.length);
    for (const round of ended) {
      if (round.status === 'error') expect(round).include({ errorCode: 'interrupted', assistantReply: null });
      else expect(round).include({ status: 'complete', assistantReply: answer.join('') });
    }
    failed += ended.filter(({ status }) => status === 'error').length;

    // Sent again with its key, each is answered once, and where it was.
    await Promise.all(all.map((asked) => sendAgain(asked, before)));
    const answered = await rounds().whereIn('userContent', messages);
    expect(answered.map(({ status, round }) => ({ status, round }))).deep.equal(
      messages.map(() => ({ status: 'complete', round: 1 })),
    );
  }

  async function sendAgain(asked: Asked, before: readonly Round[]): Promise<void> {
    const response = await until('the key is free', async () => {
      const again = await send(own.member, asked);
      if (again.status !== 409) return again;
      await again.body?.cancel();
      return null;
    });
    expect(response.status).equal(asked.path === '/chat' ? 201 : 200);
    const done = asked.path === '/chat' ? await response.json() : (await collect(readEvents(response))).at(-1)?.data;
    const { chat_id, reply } = chatMessageSchema.parse(done);
    expect(reply).equal(answer.join(''));
    const first = before.find(({ userContent }) => userContent === asked.message);
    if (first !== undefined) expect(chat_id).equal(first.chatId);
  }

  it('leaves no half answer, loses no message, and answers each once when it is sent again', async () => {
    failed = 0;
    for (let moment = 1; moment <= (isFullRun ? 5 : 1); moment += 1) {
      await dies(await startApiProcess(own.stack), moment);
    }
    expect(failed, 'answers that were cut').above(0);
    await until('everything is scored', async () => !(await rounds().whereNull('scoredAt').first()));
    await expectInvariants(own.stack);
  });

  it('ends a round whose tool was at work, and calls it anew when the message is sent again', async () => {
    const message = 'How long does this sum take?';
    const endless = 'f(n) = n < 1 ? 0 : f(n - 1) + f(n - 1); f(60)';
    const calculates = (expression: string) => {
      own.model.behave(({ messages }) =>
        messages.at(-1)?.role === 'tool'
          ? { kind: 'answer', text: 'So long.' }
          : { kind: 'call', calls: [{ name: 'math_evaluate', args: { expression } }] },
      );
    };
    const calculator = await aPublishedAgent(own.member, { enabled_tools: ['math.evaluate'] });
    const api = await startApiProcess(own.stack);
    calculates(endless);
    const body = { agent_id: calculator, message };
    const lost = own.member.at(api.baseUrl).post('/chat', body, 201);
    lost.catch(() => undefined);
    await until('the tool is called', async () => own.model.requests.length > 0 && own.model.openStreams() === 0);
    await api.kill();
    const round = await until('the round is closed', async () => {
      return rounds().where({ userContent: message, status: 'error' }).first();
    });
    expect(round).include({ errorCode: 'interrupted', assistantReply: null }).and.deep.include({ toolCalls: [] });
    calculates('1 + 1');
    const again = await own.member.post('/chat', { chat_id: round.chatId, message }, 200);
    const { reply, tool_calls } = chatMessageSchema.parse(again.body);
    expect(reply).equal('So long.');
    expect(tool_calls[0]).include({ status: 'ok', result_preview: '2' });
  });
});

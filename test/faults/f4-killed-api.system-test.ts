import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { type ApiClient, readEvents, type StreamEvent, sendJson } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { useFaultCase } from './use-fault-case.ts';

/** A message that a process was sent before it died, and the events of its stream: the first accepts the message. */
type Sent = { path: '/chat' | '/chat/stream'; message: string; got: StreamEvent[]; chatId: string };

describe('F4: when an API process dies while it answers,', function () {
  this.timeout(isFullRun ? 600_000 : 120_000);
  const random = seeded(runSeed);
  const answer = Array.from({ length: 40 }, (_, index) => `word${index} `);
  const interrupted = { errorCode: 'interrupted', assistantReply: null };
  const { own, startApi } = useFaultCase();
  let agentId: string;
  before(async () => {
    agentId = await aPublishedAgent(own.member);
    await own.startWorker();
  });

  const rounds = () => own.stack.container.db<Round>('rounds');
  const send = (api: ApiClient, { path, message }: Sent): Promise<Response> =>
    sendJson(api, 'POST', path, { agent_id: agentId, message }, { 'idempotency-key': message.replaceAll(' ', '-') });

  /** Sends the message, and reads for as long as the process lives. */
  async function sendAndRead(api: ApiClient, sent: Sent): Promise<void> {
    const response = await send(api, sent);
    if (sent.path === '/chat') return;
    sent.chatId = response.headers.get('content-location')?.split('/')[2] ?? '';
    for await (const event of readEvents(response)) sent.got.push(event);
  }

  /** Continues a stream at another process, which says that it was interrupted. */
  async function readOn({ chatId, got }: Sent): Promise<void> {
    const headers = { 'last-event-id': got.at(-1)?.id ?? '' };
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
    const api = await startApi();
    const all = Array.from({ length: 12 }, (_, index): Sent => {
      const message = `How is loan ${moment}-${index} repaid?`;
      return { path: index % 2 === 0 ? '/chat' : '/chat/stream', message, got: [], chatId: '' };
    });
    const messages = all.map(({ message }) => message);
    const ofAll = () => rounds().whereIn('userContent', messages);
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
    const complete = { status: 'complete', assistantReply: answer.join('') };
    for (const round of ended) expect(round).include(round.status === 'error' ? interrupted : complete);

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
});

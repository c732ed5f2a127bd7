import { once } from 'node:events';
import { readdir, readlink } from 'node:fs/promises';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import { type ApiClient, readEvents } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { measured, note } from '#test/support/fault-run.ts';
import { memoryOf, probedSettings, settledHeapBytes } from '#test/support/memory-of.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';

const readers = 200;
/** One in ten cuts its line instead. */
const leavers = 20;
/** More than the buffers of a line between two processes of one machine hold. */
const piece = 'word '.repeat(13_000);
const pieces = 48;
const short = { kind: 'answer', text: 'Month by month it is repaid.' } as const;

describe('F18: stream readers that take a byte a second or are cut off', function () {
  this.timeout(600_000);
  const random = seeded(runSeed);
  let own: FaultCase;
  let api: ServiceProcess & { baseUrl: string };
  let agentId: string;

  before(async () => {
    own = await startFaultCase();
    agentId = await aPublishedAgent(own.member);
    api = await startApiProcess(own.stack, { ...probedSettings, CONCURRENT_STREAMS: 'off' });
  });
  after(async () => {
    await api.stop();
    await own.close();
  });

  const rounds = () => own.stack.container.db<Round>('rounds');
  /** Open sockets of a process. */
  async function linesOf(pid: number): Promise<number> {
    const names = await readdir(`/proc/${pid}/fd`);
    const targets = names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => ''));
    return (await Promise.all(targets)).filter((target) => target.startsWith('socket:')).length;
  }

  /** Opens a stream and takes one byte of it a second. */
  async function readSlowly(token: string, chatId: string): Promise<Socket> {
    const asked = request(`${api.baseUrl}/chat/${chatId}/stream`, {
      headers: { authorization: `Bearer ${token}` },
      agent: false,
    }).end();
    const [response] = await once(asked, 'response');
    response.pause();
    const drip = setInterval(() => response.read(1), 1_000);
    response.on('error', () => undefined);
    const { socket } = response;
    socket.once('close', () => clearInterval(drip));
    socket.on('error', () => undefined);
    return socket;
  }

  /** Milliseconds from the question of a reader to the end of the answer: the median of some. */
  async function timeOfOthers(): Promise<number> {
    const times: number[] = [];
    for (let index = 0; index < 15; index += 1) {
      const beganAt = performance.now();
      const body = { agent_id: agentId, message: `What does the other ask ${index}?`, enable_rag: false };
      const events = await collect(await openChatStream(own.member.at(api.baseUrl), body));
      expect(events.at(-1)?.event).equal('done');
      times.push(performance.now() - beganAt);
    }
    return times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
  }

  it('delay no other request, cost little memory, and are disconnected within 35 s', async () => {
    const { email: username, password } = own.member;
    const session = Object((await own.stack.anonymous.post('/auth/login', { username, password }, 200)).body);
    own.model.behave(() => short);
    const usual = await timeOfOthers();
    const before = (await memoryOf(api)).heapBytes;
    const linesBefore = await linesOf(api.pid);

    const finish = Promise.withResolvers<void>();
    own.model.behave(({ messages }) => {
      const isLarge = messages.at(-1)?.content.includes('at length') ?? false;
      if (!isLarge) return short;
      return { kind: 'answer', text: Array.from({ length: pieces }, () => piece), until: finish.promise };
    });
    const message = 'Tell me at length.';
    const first = await openChatStream(own.member.at(api.baseUrl), { agent_id: agentId, message, enable_rag: false });
    await first.next();
    const round = await rounds().where({ userContent: message }).first();
    const sockets = await Promise.all(
      Array.from({ length: readers }, () => readSlowly(session.access_token, round?.chatId ?? '')),
    );
    expect(await linesOf(api.pid)).above(linesBefore + readers - 10);
    finish.resolve();
    for (const socket of sockets.slice(0, leavers)) {
      await delay(random.between(0, 50));
      socket.destroy();
    }
    // The answer waits for no reader.
    expect((await collect(first)).at(-1)?.event).equal('done');
    const stoodStillAt = Date.now();
    const stored = { status: 'complete', assistantReply: piece.repeat(pieces) };
    expect(await rounds().where({ userContent: message }).first()).include(stored);
    const beside = await timeOfOthers();
    const { heapBytes, rssBytes } = await memoryOf(api);
    const megabytes = (bytes: number) => `${(bytes / 1024 ** 2).toFixed(0)} MB`;
    note(`heap ${megabytes(heapBytes - before)} more, ${megabytes(rssBytes)} in all`);
    note(`an answer to others ${usual.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside them`);
    expect(heapBytes - before).below(100 * 1024 ** 2);

    // What was sent stays with the kernel, so that a reader does not see it yet. A few lines lead to other services.
    await until('every connection is closed', async () => (await linesOf(api.pid)) < linesBefore + 10);
    measured('every connection was closed after', Date.now() - stoodStillAt, 35_000);
    for (const socket of sockets) socket.destroy();
    const after = await settledHeapBytes(api, (heap) => heap - before < 20 * 1024 ** 2);
    expect(after - before).below(20 * 1024 ** 2);
  });
});

describe('a restart of the API while streams are open', function () {
  this.timeout(120_000);
  let own: FaultCase;
  let api: ServiceProcess & { baseUrl: string };
  let agentId: string;

  before(async () => {
    own = await startFaultCase();
    agentId = await aPublishedAgent(own.member);
    api = await startApiProcess(own.stack);
  });
  after(() => own.close());

  it('lets answers end, interrupts answers that take too long, and sends other readers to another process at once', async () => {
    const { db } = own.stack.container;
    const begin = async (member: ApiClient, message: string) => {
      const written = Promise.withResolvers<void>();
      own.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: written.promise }));
      const events = await openChatStream(member, { agent_id: agentId, message, enable_rag: false });
      await events.next();
      const { chatId } = await db('rounds').where({ userContent: message }).first('chatId');
      return { chatId: String(chatId), ends: collect(events), finish: written.resolve };
    };
    const restarting = own.member.at(api.baseUrl);
    const quick = await begin(restarting, 'quick');
    const never = await begin(restarting, 'never');
    // Written by another process, and watched through the one that restarts.
    const late = await begin(own.member, 'late');
    const watch = readEvents(await restarting.raw(`/chat/${late.chatId}/stream`));
    const { value: first } = await watch.next();
    const watched = collect(watch);

    const stoppedAt = Date.now();
    const stopped = api.stop();
    const seen = [first, ...(await watched)];
    measured('watches ended after', Date.now() - stoppedAt, 2_000);
    expect(seen.pop()).deep.include({ event: 'error', data: { detail: 'server restarting' } });
    const resumed = own.member.raw(`/chat/${late.chatId}/stream`, {
      headers: { 'last-event-id': seen.at(-1)?.id ?? '' },
    });

    quick.finish();
    expect((await quick.ends).at(-1)).deep.include({ event: 'done' });
    const told = (await never.ends).at(-1);
    measured('streams ended after', Date.now() - stoppedAt, 21_000);
    expect(told).deep.include({ event: 'error', data: { detail: 'server restarting', code: 'interrupted' } });
    await stopped;
    measured('the process ended after', Date.now() - stoppedAt, 26_000);
    expect(await api.ended).equal('exit code 0');
    const round = await db('rounds').where({ chatId: never.chatId }).first();
    expect(round).include({ status: 'error', errorCode: 'interrupted' });

    // Its writer never ended, and who watched it elsewhere has missed nothing.
    late.finish();
    const whole = [...seen, ...(await collect(readEvents(await resumed)))];
    expect(whole.map(({ event }) => event)).deep.equal(['token', 'token', 'token', 'done']);
    expect((await late.ends).at(-1)).deep.include({ event: 'done' });
    never.finish();
  });
});

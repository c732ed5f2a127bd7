import { once } from 'node:events';
import { readdir, readlink } from 'node:fs/promises';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
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

describe('F18: readers who take a byte a second, and readers who are cut off', function () {
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
  const authorization = async () => {
    const { body } = await own.stack.anonymous.post(
      '/auth/login',
      { username: own.member.email, password: own.member.password },
      200,
    );
    return `Bearer ${(body as { access_token: string }).access_token}`;
  };

  /** Open sockets of a process. */
  async function linesOf(pid: number): Promise<number> {
    const names = await readdir(`/proc/${pid}/fd`);
    const targets = names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => ''));
    return (await Promise.all(targets)).filter((target) => target.startsWith('socket:')).length;
  }

  /** Opens a stream and takes one byte of it a second. */
  async function readSlowly(token: string, chatId: string): Promise<Socket> {
    const asked = request(`${api.baseUrl}/chat/${chatId}/stream`, {
      headers: { authorization: token },
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

  /** A reader in no hurry but without a break: milliseconds from his question to the end of the answer. */
  async function timeOfOther(index: number): Promise<number> {
    const beganAt = performance.now();
    const message = `What does the other ask ${index}?`;
    const events = await openChatStream(own.member.at(api.baseUrl), { agent_id: agentId, message, enable_rag: false });
    expect((await collect(events)).at(-1)?.event).equal('done');
    return performance.now() - beganAt;
  }
  const median = (times: readonly number[]) => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;
  async function timesOfOthers(): Promise<number> {
    const times: number[] = [];
    for (let index = 0; index < 15; index += 1) times.push(await timeOfOther(index));
    return median(times);
  }

  it('hold nobody up, cost little memory, and are let go within 35 s', async () => {
    const token = await authorization();
    own.model.behave(() => ({ kind: 'answer', text: 'Month by month it is repaid.' }));
    const usual = await timesOfOthers();
    const before = (await memoryOf(api)).heapBytes;
    const linesBefore = await linesOf(api.pid);

    const finish = Promise.withResolvers<void>();
    own.model.behave(({ messages }) => {
      const isLarge = messages.at(-1)?.content.includes('at length') ?? false;
      return isLarge
        ? { kind: 'answer', text: Array.from({ length: pieces }, () => piece), until: finish.promise }
        : { kind: 'answer', text: 'Month by month it is repaid.' };
    });
    const message = 'Tell me at length.';
    const first = await openChatStream(own.member.at(api.baseUrl), { agent_id: agentId, message, enable_rag: false });
    await first.next();
    const round = await rounds().where({ userContent: message }).first();
    const sockets = await Promise.all(Array.from({ length: readers }, () => readSlowly(token, round?.chatId ?? '')));
    expect(await linesOf(api.pid)).above(linesBefore + readers - 10);
    finish.resolve();
    for (const socket of sockets.slice(0, leavers)) {
      await delay(random.between(0, 50));
      socket.destroy();
    }
    // The answer waits for nobody.
    expect((await collect(first)).at(-1)?.event).equal('done');
    const stoodStillAt = Date.now();
    expect(await rounds().where({ userContent: message }).first()).include({
      status: 'complete',
      assistantReply: piece.repeat(pieces),
    });
    const beside = await timesOfOthers();
    const { heapBytes, rssBytes } = await memoryOf(api);
    note(
      `heap ${((heapBytes - before) / 1024 ** 2).toFixed(0)} MB more, ${(rssBytes / 1024 ** 2).toFixed(0)} MB in all`,
    );
    note(`an answer to others ${usual.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside them`);
    expect(heapBytes - before).below(100 * 1024 ** 2);

    // What was sent stays with the kernel, so that a reader does not see it yet. A few lines lead to other services.
    await until('every line is let go', async () => (await linesOf(api.pid)) < linesBefore + 10);
    measured('every line was let go after', Date.now() - stoodStillAt, 35_000);
    for (const socket of sockets) socket.destroy();
    const after = await settledHeapBytes(api, (heap) => heap - before < 20 * 1024 ** 2);
    expect(after - before).below(20 * 1024 ** 2);
  });
});

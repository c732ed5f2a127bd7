import { once } from 'node:events';
import { readdir, readlink } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, openChatStream, streamAnswer } from '#test/support/builders.ts';
import { collect } from '#test/support/collect.ts';
import { measured, note } from '#test/support/fault-run.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { heapGrowth, megabytes, memoryOf, probedSettings } from './memory-of.ts';
import { type ApiProcess, useFaultCase } from './use-fault-case.ts';

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
  const { own, startApi } = useFaultCase();
  let api: ApiProcess;
  let agentId: string;
  before(async () => {
    agentId = await aPublishedAgent(own.member);
    api = await startApi({ ...probedSettings, CONCURRENT_STREAMS: 'off' });
  });

  const rounds = () => own.stack.container.db<Round>('rounds');
  async function linesOf(pid: number): Promise<number> {
    const names = await readdir(`/proc/${pid}/fd`);
    const targets = names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => ''));
    return (await Promise.all(targets)).filter((target) => target.startsWith('socket:')).length;
  }

  /** Opens a stream and takes one byte of it a second. */
  async function readSlowly(token: string, chatId: string): Promise<Socket> {
    const headers = { authorization: `Bearer ${token}` };
    const asked = request(`${api.baseUrl}/chat/${chatId}/stream`, { headers, agent: false }).end();
    const [response]: IncomingMessage[] = await once(asked, 'response');
    response?.pause();
    const drip = setInterval(() => response?.read(1), 1_000);
    for (const part of [response, asked.socket]) part?.on('error', () => undefined);
    asked.socket?.once('close', () => clearInterval(drip));
    return asked.socket as Socket;
  }

  /** Milliseconds from the question of a reader to the end of the answer: the median of some. */
  async function timeOfOthers(): Promise<number> {
    const times: number[] = [];
    for (let index = 0; index < 15; index += 1) {
      const beganAt = performance.now();
      const message = `What does the other ask ${index}?`;
      await streamAnswer(own.member.at(api.baseUrl), { agent_id: agentId, message, enable_rag: false });
      times.push(performance.now() - beganAt);
    }
    return times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
  }

  it('delay no other request, cost little memory, and are disconnected within 35 s', async () => {
    const { email: username, password } = own.member;
    const { body: session } = await own.stack.anonymous.post('/auth/login', { username, password }, 200);
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
    const open = () => readSlowly(Object(session).access_token, round?.chatId ?? '');
    const sockets = await Promise.all(Array.from({ length: readers }, open));
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
    note(`heap ${megabytes(heapBytes - before)} more, ${megabytes(rssBytes)} in all`);
    note(`an answer to others ${usual.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside them`);
    expect(heapBytes - before).below(100 * 1024 ** 2);

    // What was sent stays with the kernel, so that a reader does not see it yet. A few lines lead to other services.
    await until('every connection is closed', async () => (await linesOf(api.pid)) < linesBefore + 10);
    measured('every connection was closed after', Date.now() - stoodStillAt, 35_000);
    for (const socket of sockets) socket.destroy();
    expect(await heapGrowth(api, before, 20 * 1024 ** 2)).below(20 * 1024 ** 2);
  });
});

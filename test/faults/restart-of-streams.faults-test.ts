import { expect } from 'chai';
import { aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';

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

  it('lets answers end, says of the others that it restarts, and sends watches elsewhere at once', async () => {
    const { db } = own.stack.container;
    const finish = {
      quick: Promise.withResolvers<void>(),
      late: Promise.withResolvers<void>(),
      never: Promise.withResolvers<void>(),
    };
    own.model.behave(({ messages }) => {
      const [, word] = /a (quick|late|never) answer/.exec(messages.at(-1)?.content ?? '') ?? [];
      const until = finish[word as keyof typeof finish].promise;
      return { kind: 'answer', text: 'Month by month.', until };
    });
    const begin = async (member: typeof own.member | ReturnType<typeof own.member.at>, word: string) => {
      const message = `Give me a ${word} answer.`;
      const events = await openChatStream(member, { agent_id: agentId, message, enable_rag: false });
      await events.next();
      const { chatId } = await db('rounds').where({ userContent: message }).first('chatId');
      return { chatId: String(chatId), ends: collect(events) };
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

    finish.quick.resolve();
    expect((await quick.ends).at(-1)).deep.include({ event: 'done' });
    const told = (await never.ends).at(-1);
    measured('streams ended after', Date.now() - stoppedAt, 21_000);
    expect(told).deep.include({ event: 'error', data: { detail: 'server restarting', code: 'interrupted' } });
    await stopped;
    measured('the process ended after', Date.now() - stoppedAt, 26_000);
    expect(await api.ended).equal('exit code 0');
    expect(await db('rounds').where({ chatId: never.chatId }).first()).include({
      status: 'error',
      errorCode: 'interrupted',
    });

    // Its writer never ended, and who watched it elsewhere has missed nothing.
    finish.late.resolve();
    const whole = [...seen, ...(await collect(readEvents(await resumed)))];
    expect(whole.map(({ event }) => event)).deep.equal(['token', 'token', 'token', 'done']);
    expect((await late.ends).at(-1)).deep.include({ event: 'done' });
    finish.never.resolve();
  });
});

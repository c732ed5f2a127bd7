import { expect } from 'chai';
import { createRoundEventsRepository } from '#src/modules/chat/round-events.repository.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents, type StreamEvent } from '#test/support/event-stream.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('GET /chat/{chat_id}/stream', () => {
  let stack: ScriptedStack;
  /** Another process of the API on the same database. */
  let replica: Stack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    replica = await startStack({ ...stack.settings, PORT: '0' }, { workers: false });
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  after(() => replica.close());
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' })));

  const send = (body: object) =>
    ada.raw('/chat/stream', {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  const replay = (chatId: string, lastEventId?: string) =>
    ada.at(replica.baseUrl).raw(`/chat/${chatId}/stream`, {
      headers: lastEventId === undefined ? {} : { 'last-event-id': lastEventId },
    });
  const kinds = (events: StreamEvent[]) => events.map(({ event }) => event);
  const newChat = async () => (await ask(ada, { agent_id: agentId, message: 'How?' }, 201)).chat_id;
  const roundOf = (chatId: string, round: number) => stack.container.db('rounds').where({ chatId, round }).first();

  it('has the address in the Content-Location of POST /chat/stream, sent before the first event', async () => {
    const chatId = await newChat();
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'Slowly now.', until: finish.promise }));
    const response = await send({ chat_id: chatId, message: 'And then?' });
    expect(response.headers.get('content-location')).equal(`/chat/${chatId}/stream`);
    finish.resolve();
    await response.text();
  });

  it('200 with the same events from another process while the answer is written', async () => {
    const chatId = await newChat();
    const finish = Promise.withResolvers<void>();
    const text = Array.from({ length: 40 }, (_, index) => `word${index} "é" `);
    stack.model.behave(() => ({ kind: 'answer', text, until: finish.promise }));
    const response = await send({ chat_id: chatId, message: 'And then?' });
    const second = await replay(chatId);
    expect(second.status).equal(200);
    finish.resolve();
    const [sent, replayed] = await Promise.all([response.text(), second.text()]);
    expect(sent).match(/event: done/);
    expect(replayed).equal(sent);
    // And again after its end.
    expect(await (await replay(chatId)).text()).equal(sent);
  });

  it('200 with the events after Last-Event-ID', async () => {
    const chatId = await newChat();
    const all = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    const rest = await collect(readEvents(await replay(chatId, all[2]?.id)));
    expect(rest).deep.equal(all.slice(3));
  });

  it('200 for an answer of POST /chat, and for an older one', async () => {
    const chatId = await newChat();
    const newest = await collect(readEvents(await replay(chatId)));
    expect(newest[0]?.id).equal('1:1');
    await ask(ada, { chat_id: chatId, message: 'And then?' }, 200);
    const older = await collect(readEvents(await replay(chatId, '1:1')));
    expect(older).deep.equal(newest.slice(1));
  });

  it('204 for the Last-Event-ID of the last event, so that browsers stop reconnecting', async () => {
    const chatId = await newChat();
    const all = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
  });

  it('200 with only the last event after the stored events are deleted', async () => {
    const chatId = await newChat();
    // The replayed event has the chat's current title: a user's title does not change in between.
    await ada.patch(`/chat/${chatId}`, { title: 'Mine' }, 200);
    const all = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    const { db, chat } = stack.container;
    const { streamId, lastSeq } = await db('rounds').where({ chatId, round: 2 }).first();
    await until('its events are stored', () => db('round_events').where({ streamId, lastSeq }).first());
    await db('round_events')
      .where({ chatId })
      .update({ createdAt: new Date(0) });
    await chat.forgetEvents();
    expect(await db('round_events').where({ chatId }), 'events of a recent answer are kept').not.deep.equal([]);
    await db('rounds')
      .where({ chatId })
      .update({ finishedAt: new Date(0) });
    await chat.forgetEvents();
    expect(await db('round_events').where({ chatId })).deep.equal([]);

    const rest = await collect(readEvents(await replay(chatId)));
    expect(rest).deep.equal([all.at(-1)]);
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
  });

  it('200 with the error of a failed answer', async () => {
    const chatId = await newChat();
    stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
    const all = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    expect(kinds(all)).deep.equal(['token', 'error']);
    expect(await collect(readEvents(await replay(chatId)))).deep.equal(all);
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
  });

  it('200 with an error for the Last-Event-ID of a previous attempt, and with the new answer without one', async () => {
    const chatId = await newChat();
    stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
    const [first] = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    stack.model.behave(() => ({ kind: 'answer', text: 'Another answer.' }));
    const again = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    const late = await collect(readEvents(await replay(chatId, first?.id)));
    expect(kinds(late)).deep.equal(['error']);
    expect(late[0]?.data).property('code', 'interrupted');
    expect((await replay(chatId, late[0]?.id)).status).equal(204);
    expect(await collect(readEvents(await replay(chatId)))).deep.equal(again);
  });

  it('200 with an error after the writing process died', async () => {
    const chatId = await newChat();
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: ['Half an ', 'answer.'], until: finish.promise }));
    const sent = await openChatStream(ada, { chat_id: chatId, message: 'And then?' });
    await sent.next();
    const { db } = stack.container;
    await until('the first words are stored', () =>
      db('round_events').where({ chatId }).whereRaw(`events like '%Half%'`).first(),
    );
    const following = collect(readEvents(await replay(chatId)));
    await db('rounds')
      .where({ chatId, round: 2 })
      .update({ leaseOwner: crypto.randomUUID(), leaseExpiresAt: new Date(0) });
    await until('the sweeper has ended it', async () => (await roundOf(chatId, 2)).status === 'error');
    const events = await following;
    expect(kinds(events)).deep.equal(['token', 'error']);
    expect(events.at(-1)).deep.include({ id: '2:10000000' });
    expect(events.at(-1)?.data).property('code', 'interrupted');
    expect((await replay(chatId, '2:10000000')).status).equal(204);
    const ahead = await collect(readEvents(await replay(chatId, '2:7')));
    expect(ahead, 'for a reader that got more events than were stored').deep.equal(events.slice(-1));
    finish.resolve();
    await collect(sent);
    // The writing process was only suspended, and stores an event after its round was ended.
    const { orgId, streamId } = await roundOf(chatId, 2);
    const late = { seq: 2, event: 'token' as const, text: 'late' };
    await createRoundEventsRepository(db).insert([{ orgId, chatId, round: 2, streamId, events: [late] }]);
    await ask(ada, { agent_id: agentId, message: 'How?' }, 201);
    expect(await collect(readEvents(await replay(chatId)))).deep.equal(events);
  });

  it('200 with all events for a slow reader', async () => {
    const chatId = await newChat();
    const { container } = stack;
    const actor = await container.auth.findActor(ada.userId);
    if (actor === null) throw new Error('Ada was not found.');
    const text = Array.from({ length: 8 }, (_, index) => `word${index} `);
    stack.model.behave(() => ({ kind: 'answer', text }));
    const all = await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    const { db } = container;
    const last = Number(all.at(-1)?.id?.split(':')[1]);
    await until('all is stored', () => db('round_events').where({ chatId, lastSeq: last }).first());

    const replayed = await replica.container.chat.replay(actor, chatId, null);
    const seqs: number[] = [];
    let polls = 0;
    replica.container.db.on('query', ({ sql }: { sql: string }) => {
      if (sql.includes('round_events')) polls += 1;
    });
    let isOld = false;
    for await (const { seq } of replayed?.events(new AbortController().signal, async () => actor) ?? []) {
      seqs.push(seq);
      if (isOld) continue;
      // Longer ago than the follower waits for the last event.
      await db('rounds')
        .where({ chatId })
        .update({ finishedAt: new Date(0) });
      const first = polls;
      await until('the follower has polled for more events 20 times', async () => polls >= first + 20);
      isOld = true;
    }
    expect(seqs).deep.equal(Array.from({ length: last }, (_, index) => index + 1));
  });

  it('200 for a round with thousands of attempts, without delay for other answers', async () => {
    const [chatId, other] = [await newChat(), await newChat()];
    stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
    await collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
    await stack.container.db('rounds').where({ chatId, round: 2 }).update({ attempt: 5_000 });
    stack.model.behave(() => ({ kind: 'answer', text: 'Another answer.' }));
    const [again, beside] = await Promise.all([
      openChatStream(ada, { chat_id: chatId, message: 'And then?' }).then(collect),
      openChatStream(ada, { chat_id: other, message: 'And then?' }).then(collect),
    ]);
    expect(await collect(readEvents(await replay(chatId, again[0]?.id)))).deep.equal(again.slice(1));
    expect(await collect(readEvents(await replay(other)))).deep.equal(beside);
  });

  for (const id of ['x', '1', '1:2:3', '0:1', '99:1', '-1:1']) {
    it(`400 for the Last-Event-ID ${id}`, async () => {
      const { body } = await ada.get(`/chat/${await newChat()}/stream`, 400, { 'last-event-id': id });
      expect(body).property('code', 'malformed_request');
    });
  }

  it('401 without a token', async () => {
    await stack.anonymous.get(`/chat/${crypto.randomUUID()}/stream`, 401);
  });

  it('404 for a user without read access', async () => {
    await (await stack.signUp('Eve')).get(`/chat/${await newChat()}/stream`, 404);
  });
});

import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import { type Member, readEvents, type StreamEvent } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const kinds = (events: StreamEvent[]) => events.map(({ event }) => event);
const tokensOf = (events: StreamEvent[]) =>
  events.flatMap(({ event, data }) => (event === 'token' ? [(data as { t: string }).t] : []));
const json = { 'content-type': 'application/json' };

describe('the stream of an answer', () => {
  let stack: ScriptedStack;
  let replica: Stack;
  let ada: Member;
  let agentId: string;
  let finish = Promise.withResolvers<void>();

  before(async () => {
    stack = await scriptedStack();
    replica = await startStack({ ...stack.settings, PORT: '0' }, { workers: false });
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  after(() => replica.close());
  beforeEach(() => {
    finish = Promise.withResolvers();
    answer('A loan is repaid month by month.');
  });
  afterEach(() => finish.resolve());

  const answer = (text: string | string[]) => stack.model.behave(() => ({ kind: 'answer', text }));
  /** Holds all but the first word back until the answer may finish. */
  const hold = (text: string | string[] = 'Month by month.') =>
    stack.model.behave(() => ({ kind: 'answer', text, until: finish.promise }));
  const newChat = async () => (await ask(ada, { agent_id: agentId, message: 'How?' }, 201)).chat_id;
  const stream = async (chatId: string) =>
    collect(await openChatStream(ada, { chat_id: chatId, message: 'And then?' }));
  const messagesOf = async (chatId: string): Promise<string[]> => {
    const { messages } = Object((await ada.get(`/chat/${chatId}`, 200)).body);
    return messages.map(({ content }: { content: string }) => content);
  };
  const replay = (chatId: string, lastEventId?: string) =>
    ada.at(replica.baseUrl).raw(`/chat/${chatId}/stream`, {
      headers: lastEventId === undefined ? {} : { 'last-event-id': lastEventId },
    });
  const replayed = async (chatId: string, lastEventId?: string) =>
    collect(readEvents(await replay(chatId, lastEventId)));

  it('has tokens numbered by round and position, ends with the whole answer, and resumes after Last-Event-ID', async () => {
    const chatId = await newChat();
    const first = await replayed(chatId);
    expect(first[0]?.id).equal('1:1');
    const all = await stream(chatId);
    expect(all.map(({ id }) => id)).deep.equal(all.map((_, index) => `2:${index + 1}`));
    expect(kinds(all)).deep.equal([...Array(all.length - 1).fill('token'), 'done']);
    const { reply } = chatMessageSchema.parse(all.at(-1)?.data);
    expect(reply).equal(tokensOf(all).join('')).and.equal('A loan is repaid month by month.');

    expect(await replayed(chatId, all[2]?.id)).deep.equal(all.slice(3));
    expect(await replayed(chatId, '1:1'), 'of an older answer').deep.equal(first.slice(1));
    expect((await replay(chatId, all.at(-1)?.id)).status, 'so that browsers stop reconnecting').equal(204);
    for (const id of ['x', '1', '1:2:3', '0:1', '99:1', '-1:1']) {
      const { body } = await ada.get(`/chat/${chatId}/stream`, 400, { 'last-event-id': id });
      expect(body, id).include({ code: 'malformed_request' });
    }
  });

  it('is stored as a whole when the client disconnects, and sent again for the same Idempotency-Key', async () => {
    hold();
    const leaving = new AbortController();
    const message = { agent_id: agentId, message: 'How is a loan repaid?' };
    const headers = { ...json, 'idempotency-key': crypto.randomUUID() };
    const events = await openChatStream(ada, message, { headers, signal: leaving.signal });
    // The first word is sent before the model has written the last.
    expect((await events.next()).value).deep.include({ event: 'token', data: { t: 'Month' } });
    leaving.abort();
    finish.resolve();
    const again = await until('the key is free', async () => {
      const init = { method: 'POST', headers, body: JSON.stringify(message) };
      const response = await ada.raw('/chat/stream', init);
      return response.status === 200 && response;
    });
    const all = await collect(readEvents(again));
    expect(kinds(all)).deep.equal(['token', 'token', 'token', 'done']);
    const { reply, chat_id } = chatMessageSchema.parse(all.at(-1)?.data);
    expect([tokensOf(all).join(''), reply]).deep.equal(['Month by month.', 'Month by month.']);
    expect(await messagesOf(chat_id)).deep.equal([message.message, 'Month by month.']);
    expect(stack.model.requests).length(1);
  });

  it('has all text that the model wrote before it broke off, and the error last', async () => {
    // A citation, an address or an image might follow.
    for (const content of ['A loan is ', 'A loan is explained at http', 'A loan is repaid!']) {
      answer('Month by month.');
      const chatId = await newChat();
      const body = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
      stack.model.behave(() => ({ kind: 'raw', body, ends: true }));
      const events = await stream(chatId);
      expect(tokensOf(events).join('')).equal(content);
      expect(events.at(-1)?.event).equal('error');
      expect((await replay(chatId, events.at(-1)?.id)).status).equal(204);
    }
  });

  it('is the same from another API process, while the answer is written and afterwards', async () => {
    const chatId = await newChat();
    hold(Array.from({ length: 40 }, (_, index) => `word${index} "é" `));
    const body = JSON.stringify({ chat_id: chatId, message: 'And then?' });
    const response = await ada.raw('/chat/stream', { method: 'POST', body, headers: json });
    expect(response.headers.get('content-location')).equal(`/chat/${chatId}/stream`);
    const second = await replay(chatId);
    finish.resolve();
    const [sent, same] = await Promise.all([response.text(), second.text()]);
    expect(sent).match(/event: done/);
    expect(same).equal(sent);
    expect(await (await replay(chatId)).text()).equal(sent);
  });

  it('has only its last event once the stored events are deleted', async () => {
    const chatId = await newChat();
    // The replayed event has the chat's current title: a user's title does not change in between.
    await ada.patch(`/chat/${chatId}`, { title: 'Mine' }, 200);
    const all = await stream(chatId);
    const { db, chat } = stack.container;
    expect(await replayed(chatId)).deep.equal(all);
    const longAgo = new Date(0);
    await db('round_events').where({ chatId }).update({ createdAt: longAgo });
    await chat.forgetEvents();
    expect(await replayed(chatId), 'of a recent answer').deep.equal(all);
    await db('rounds').where({ chatId }).update({ finishedAt: longAgo });
    await chat.forgetEvents();
    expect(await replayed(chatId)).deep.equal([all.at(-1)]);
    expect((await replay(chatId, all.at(-1)?.id)).status).equal(204);
  });

  it('that failed repeats its error to late readers, even after a new attempt; the chat does not keep its text', async () => {
    const chatId = await newChat();
    stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
    const failed = await stream(chatId);
    expect(kinds(failed)).deep.equal(['token', 'error']);
    expect(failed.at(-1)?.data).property('detail').a('string');
    expect(await messagesOf(chatId)).length(3);
    expect(await replayed(chatId)).deep.equal(failed);
    expect((await replay(chatId, failed.at(-1)?.id)).status).equal(204);

    answer('Another answer.');
    const again = await stream(chatId);
    const late = await replayed(chatId, failed[0]?.id);
    expect(late.map(({ event, data }) => [event, Object(data).code])).deep.equal([['error', 'interrupted']]);
    expect((await replay(chatId, late[0]?.id)).status).equal(204);
    expect(await replayed(chatId)).deep.equal(again);
  });

  it('ends with an error after the process that wrote the answer died; the message can be sent again', async () => {
    const chatId = await newChat();
    hold(['Half an ', 'answer.']);
    const sent = await openChatStream(ada, { chat_id: chatId, message: 'And then?' });
    await sent.next();
    const following = readEvents(await replay(chatId));
    expect((await following.next()).value).include({ event: 'token' });
    const lost = { leaseOwner: crypto.randomUUID(), leaseExpiresAt: new Date(0) };
    await stack.container.db('rounds').where({ chatId, round: 2 }).update(lost);
    // The sweeper ends it.
    const events = await collect(following);
    expect(events.map(({ id, event }) => [id, event])).deep.equal([['2:10000000', 'error']]);
    expect(events[0]?.data).property('code', 'interrupted');
    expect((await replay(chatId, '2:10000000')).status).equal(204);
    const ahead = await replayed(chatId, '2:7');
    expect(ahead, 'for a reader that got more events than were stored').deep.equal(events);
    // The process is alive after all, and cannot complete what was ended.
    finish.resolve();
    expect((await collect(sent)).at(-1)).include({ event: 'error' });
    expect(await messagesOf(chatId)).length(3);
    await ask(ada, { chat_id: chatId, message: 'And then?' }, 200);
  });
});

describe('an answer with STREAM_ON_DISCONNECT=cancel', () => {
  let scripted: ScriptedStack;
  let stack: Stack;
  let replica: Stack;
  let ada: Member;
  let agent_id: string;
  const finish = Promise.withResolvers<void>();

  before(async () => {
    scripted = await scriptedStack();
    const settings = { OPENAI_BASE_URL: scripted.model.baseUrl, STREAM_ON_DISCONNECT: 'cancel' };
    stack = await startStack(settings, { workers: false });
    replica = await startStack(stack.settings, { workers: false });
    ada = await stack.signUp('Ada');
    agent_id = await aPublishedAgent(ada);
    scripted.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
  });
  after(async () => {
    await replica.close();
    await stack.close();
  });

  const messagesOf = async (chatId: string): Promise<object[]> =>
    Object((await ada.get(`/chat/${chatId}`, 200)).body).messages;
  const post = (path: string, message: string, signal: AbortSignal) =>
    ada.raw(path, { method: 'POST', headers: json, body: JSON.stringify({ agent_id, message }), signal });

  async function begin(): Promise<{ chatId: string; leave: () => void }> {
    const leaving = new AbortController();
    const response = await post('/chat/stream', 'How is a loan repaid?', leaving.signal);
    const [, chatId = ''] = response.headers.get('content-location')?.split(/\/chat\/|\/stream/) ?? [];
    await readEvents(response).next();
    return { chatId, leave: () => leaving.abort() };
  }

  it('is interrupted when its last reader in any process disconnects, but completed if not streamed', async () => {
    const { db } = stack.container;
    // Lets a recorded reader count for ever instead of five seconds, so that the test does not depend on timing.
    await db.raw(`
      create function keep_follower() returns trigger language plpgsql as
        $$ begin new.followed_at = 'infinity'; return new; end $$;
      create trigger keep_follower before update of followed_at on rounds
        for each row when (new.followed_at is not null) execute function keep_follower();
    `);
    const { chatId: followed, leave: leaveFollowed } = await begin();
    const reading = collect(readEvents(await ada.at(replica.baseUrl).raw(`/chat/${followed}/stream`)));
    await until('the other reader is recorded', () => db('rounds').whereNotNull('followedAt').first());
    leaveFollowed();
    const whole = new AbortController();
    post('/chat', 'Is it repaid month by month?', whole.signal).catch(() => undefined);
    await until('the model is asked', async () => scripted.model.openStreams() === 2);
    whole.abort();
    // This reader leaves last, but its answer is interrupted first.
    const { chatId: left, leave } = await begin();
    leave();
    await until('the answer is interrupted', async () => {
      const { body } = await ada.get(`/logs/conversations/${left}`, 200);
      return Object(body).round_summaries[0].type === 'error';
    });
    const ended = await collect(readEvents(await ada.raw(`/chat/${left}/stream`)));
    expect(ended.at(-1)?.data).property('code', 'interrupted');
    expect(await messagesOf(left)).length(1);
    await until('the model writes only the other answers', async () => scripted.model.openStreams() === 2);

    finish.resolve();
    expect(kinds(await reading)).deep.equal(['token', 'token', 'token', 'done']);
    const { items } = Object((await ada.get('/chat', 200)).body);
    for (const { id } of items.filter((chat: { id: string }) => chat.id !== left)) {
      await until('the answer is stored', async () => (await messagesOf(id)).length === 2);
    }
    expect(items).length(3);
  });
});

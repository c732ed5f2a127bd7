import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aColleague, aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents, type StreamEvent } from '#test/support/event-stream.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('POST /chat/stream', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => {
    stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' }));
    stack.model.failEmbeddings(false);
  });

  async function read(body: Record<string, unknown>): Promise<StreamEvent[]> {
    return collect(await openChatStream(ada, body));
  }
  const kinds = (events: StreamEvent[]) => events.map((event) => event.event);
  const textOf = (events: StreamEvent[]) =>
    events.map((event) => (event.event === 'token' ? (event.data as { t: string }).t : '')).join('');

  it('200 with tokens, then done with the whole answer', async () => {
    const events = await read({ agent_id: agentId, message: 'How is a loan repaid?' });
    expect(kinds(events).slice(0, -1)).to.have.length.above(1);
    expect(new Set(kinds(events).slice(0, -1))).deep.equal(new Set(['token']));
    const done = events.at(-1);
    expect(done?.event).equal('done');
    const answer = chatMessageSchema.parse(done?.data);
    expect(answer.reply).equal(textOf(events)).and.equal('A loan is repaid month by month.');
  });

  it('numbers its events with the round and their position', async () => {
    const { chat_id } = await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
    const events = await read({ chat_id, message: 'And a mortgage?' });
    expect(events.map((event) => event.id)).deep.equal(events.map((_, index) => `2:${index + 1}`));
  });

  it('sends the first words before the model has written the last', async () => {
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    const events = await openChatStream(ada, { agent_id: agentId, message: 'How is a loan repaid?' });
    const first = await events.next();
    expect(first.value).deep.include({ event: 'token', data: { t: 'Month' } });
    finish.resolve();
    expect(kinds(await collect(events)).at(-1)).equal('done');
  });

  it('ends with exactly one error when the model breaks off, and keeps no part of the answer', async () => {
    stack.model.behave(() => ({ kind: 'break_off', text: 'A loan is' }));
    const events = await read({ agent_id: agentId, message: 'How is a loan repaid?' });
    expect(kinds(events)).deep.equal(['token', 'error']);
    expect(events.at(-1)?.data).property('detail').a('string');
    const { items } = (await ada.get('/chat?limit=1', 200)).body as { items: { id: string }[] };
    const { messages } = (await ada.get(`/chat/${items[0]?.id}`, 200)).body as { messages: unknown[] };
    expect(messages).length(1);
  });

  it('completes and stores the answer when the client disconnects', async () => {
    const { chat_id } = await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'In the end it is written.', until: finish.promise }));
    const leaving = new AbortController();
    const events = await openChatStream(ada, { chat_id, message: 'Still there?' }, { signal: leaving.signal });
    await events.next();
    leaving.abort();
    finish.resolve();
    await until('the answer is stored', async () => {
      const { messages } = (await ada.get(`/chat/${chat_id}`, 200)).body as { messages: { content: string }[] };
      return messages.at(-1)?.content === 'In the end it is written.';
    });
  });

  it('stores the whole answer for an Idempotency-Key when the client disconnects', async () => {
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    const leaving = new AbortController();
    const message = { agent_id: agentId, message: 'How is a loan repaid?' };
    const headers = { 'idempotency-key': 'leaves-in-the-middle' };
    const events = await openChatStream(ada, message, { headers, signal: leaving.signal });
    await events.next();
    leaving.abort();
    finish.resolve();
    const again = await until('the key is free', async () => {
      const response = await ada.raw('/chat/stream', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(message),
      });
      return response.status === 200 && response;
    });
    const all = await collect(readEvents(again));
    expect(kinds(all)).deep.equal(['token', 'token', 'token', 'done']);
    expect(textOf(all)).equal('Month by month.');
    expect(stack.model.requests).length(1);
  });

  it('401, 403, 404, 409 and 422 as problem documents, not as streams', async () => {
    const message = 'Hello';
    await stack.anonymous.post('/chat/stream', { agent_id: agentId, message }, 401);
    const { chat_id } = await ask(ada, { agent_id: agentId, message, visibility: 'org_level' }, 201);
    await (await aColleague(stack, ada)).post('/chat/stream', { chat_id, message }, 403);
    await (await stack.signUp('Eve')).post('/chat/stream', { agent_id: agentId, message }, 404);
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'It takes long.', until: finish.promise }));
    const open = await openChatStream(ada, { chat_id, message });
    const { body } = await ada.post('/chat/stream', { chat_id, message }, 409);
    expect(body).property('code', 'round_in_progress');
    finish.resolve();
    await collect(open);
    await ada.post('/chat/stream', { message }, 422);
  });
});

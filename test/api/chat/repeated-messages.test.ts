import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('POST /chat with an Idempotency-Key', () => {
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
  });

  it('409 for at most one of two concurrent requests to POST /chat and POST /chat/stream with one key', async () => {
    const body = JSON.stringify({ agent_id: agentId, message: 'How?' });
    const headers = { 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() };
    const replies = await Promise.all(
      ['/chat', '/chat/stream'].map((path) => ada.raw(path, { method: 'POST', body, headers })),
    );
    await Promise.all(replies.map((reply) => reply.text()));
    expect(replies.map(({ status }) => status).filter((status) => status >= 400)).satisfy(
      (refused: number[]) => refused.length === 0 || (refused.length === 1 && refused[0] === 409),
    );
  });

  it('repeats the first answer for the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': uuidv7() };
    const body = { agent_id: agentId, message: 'What is a mortgage loan?' };
    const first = await ask(ada, body, 201, headers);
    const second = await ask(ada, body, 201, headers);
    expect(second).deep.equal(first);
    expect(stack.model.requests).length(1);
  });

  it('starts another chat for another message with an expired key', async () => {
    const headers = { 'idempotency-key': uuidv7() };
    const first = await ask(ada, { agent_id: agentId, message: 'What is a mortgage loan?' }, 201, headers);
    await stack.container.db('idempotencyKeys').where({ key: headers['idempotency-key'] }).delete();
    const second = await ask(ada, { agent_id: agentId, message: 'Who gives a loan?' }, 201, headers);
    expect(second.chat_id).not.equal(first.chat_id);
  });

  it('repeats the answer of the round if only the stored response is gone', async () => {
    const headers = { 'idempotency-key': uuidv7() };
    const body = { agent_id: agentId, message: 'What is a mortgage loan?' };
    const first = await ask(ada, body, 201, headers);
    await stack.container.db('idempotencyKeys').where({ key: headers['idempotency-key'] }).delete();
    const second = await ask(ada, body, 201, headers);
    expect(second).include({ chat_id: first.chat_id, postprocess_job_id: first.postprocess_job_id });
    expect(stack.model.requests).length(1);
  });

  it('continues the chat of the first attempt if that one was not answered', async () => {
    const member = await stack.signUp('Grace');
    const headers = { 'idempotency-key': uuidv7() };
    const body = { agent_id: await aPublishedAgent(member), message: 'What is a mortgage loan?' };
    stack.model.behave(() => ({ kind: 'status', status: 500 }));
    await member.post('/chat', body, 503, headers);
    stack.model.behave(() => ({ kind: 'answer', text: 'A loan on a house.' }));
    await ask(member, body, 201, headers);
    const chats = (await member.get('/chat', 200)).body;
    expect(chats).include({ total: 1 }).and.nested.include({ 'items[0].round': 1 });
  });
});

import { expect } from 'chai';
import { createChatRepository } from '#src/modules/chat/chat.repository.ts';
import { createRoundEventsRepository } from '#src/modules/chat/round-events.repository.ts';
import { aColleague, aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('DELETE /chat/{chat_id}', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' })));

  const newChat = (fields: object = {}, headers: Record<string, string> = {}) =>
    ask(ada, { agent_id: agentId, message: 'How is a loan repaid?', ...fields }, 201, headers);

  it('204 and deletes the chat with its rounds, scores and job', async () => {
    const key = crypto.randomUUID();
    const { chat_id, postprocess_job_id } = await newChat({}, { 'idempotency-key': key });
    await ada.delete(`/chat/${chat_id}`, 204);

    await ada.get(`/chat/${chat_id}`, 404);
    await ada.get(`/jobs/${postprocess_job_id}`, 404);
    await ada.post('/chat', { chat_id, message: 'Still there?' }, 404);
    await ada.delete(`/chat/${chat_id}`, 404);
    const { db } = stack.container;
    expect(await db('rounds').where({ chatId: chat_id })).deep.equal([]);
    expect(await db('idempotency_keys').where({ key })).deep.equal([]);
  });

  it('204 and keeps the stored response of another route for the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const note = { name: 'Note', content: 'Kept.', source_format: 'text' };
    const { body } = await ada.post('/documents/paste', note, 201, headers);
    const { chat_id } = await newChat({}, headers);
    await ada.delete(`/chat/${chat_id}`, 204);
    const again = await ada.post('/documents/paste', note, 201, headers);
    expect(again.body).include({ id: (body as { id: string }).id });
  });

  it('204 while an answer is written: its stream ends in an error, and no round is stored', async () => {
    const { chat_id } = await newChat();
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'It is written in vain.', until: finish.promise }));
    const events = await openChatStream(ada, { chat_id, message: 'And then?' });
    await events.next();
    await ada.delete(`/chat/${chat_id}`, 204);
    finish.resolve();
    expect((await collect(events)).at(-1)).property('event', 'error');
    const { db } = stack.container;
    expect(await db('rounds').where({ chatId: chat_id })).deep.equal([]);
    // A process stores the events of all answers together: another answer flushes what this one has left.
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    const { chat_id: other } = await newChat();
    await until('the other answer is stored', () => db('round_events').where({ chatId: other }).first());
    expect(await db('round_events').where({ chatId: chat_id })).deep.equal([]);
  });

  it('204 while events of an answer are being stored: none of them remain', async () => {
    const { chat_id: chatId } = await newChat();
    const { db } = stack.container;
    const { round, streamId } = await db('rounds').where({ chatId }).first();
    await db('round_events').where({ chatId }).delete();
    const deletion = await db.transaction();
    await createChatRepository(deletion).delete({ orgId: ada.orgId, id: chatId });
    const batch = {
      orgId: ada.orgId,
      chatId,
      round,
      streamId,
      events: [{ seq: 1, event: 'token' as const, text: 'It' }],
    };
    let isStored = false;
    const storing = createRoundEventsRepository(db)
      .insert([batch])
      .then(() => {
        isStored = true;
      });
    await until('it is stored, or waits for the deletion', async () => {
      const waiting = db('pg_stat_activity').whereRaw('datname = current_database()').where({ waitEventType: 'Lock' });
      return isStored || (await waiting.first()) !== undefined;
    });
    await deletion.commit();
    await storing;
    expect(await db('round_events').where({ chatId })).deep.equal([]);
  });

  it('401 without a token', async () => {
    await stack.anonymous.delete(`/chat/${crypto.randomUUID()}`, 401);
  });

  it('403 for a colleague with read access only', async () => {
    const { chat_id } = await newChat({ visibility: 'org_level' });
    await (await aColleague(stack, ada)).delete(`/chat/${chat_id}`, 403);
    await ada.get(`/chat/${chat_id}`, 200);
  });

  it('404 for a chat of another organization, and for an invalid id', async () => {
    const { chat_id } = await newChat();
    const eve = await stack.signUp('Eve');
    await eve.delete(`/chat/${chat_id}`, 404);
    await eve.delete('/chat/none', 404);
  });
});

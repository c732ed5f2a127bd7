import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('unusual messages to an agent', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' })));

  const paths = ['/chat', '/chat/stream'];

  /** Checks both routes: `/chat/stream` answers a refusal with a problem, not with a stream. */
  async function refused(body: object, status: number, path?: string): Promise<void> {
    for (const address of paths) {
      const reply = await ada.post(address, { agent_id: agentId, message: 'A loan?', ...body }, status);
      if (path === undefined) continue;
      const { errors } = reply.body as { errors: { path: string }[] };
      expect(errors.map((error) => error.path)).include(path);
    }
  }

  describe('refuses', () => {
    it('413 a body of more than a megabyte', () => refused({ message: 'x'.repeat(1024 ** 2) }, 413));
    const texts = {
      'a text of 100,001 characters': 'x'.repeat(100_001),
      'an empty text': '',
      'a blank text': ' \n\t\u00a0\u2003',
      'a text with NUL': 'A\0loan?',
      'a text with half a character': 'A \ud83d loan?',
    };
    for (const [what, message] of Object.entries(texts)) it(`422 ${what}`, () => refused({ message }, 422, 'message'));

    it('422 more than 1,000 documents', () =>
      refused({ include_document_ids: Array.from({ length: 1_001 }, () => uuidv7()) }, 422, 'include_document_ids'));
    it('422 1,000 unknown documents, naming the first', () =>
      refused({ include_document_ids: Array.from({ length: 1_000 }, () => uuidv7()) }, 422, 'include_document_ids.0'));
    it('422 an invalid document id', () =>
      refused({ exclude_document_ids: ["' or 1=1"] }, 422, 'exclude_document_ids.0'));
    it('422 a reranker that does not exist', () => refused({ reranking_type: 'magic' }, 422, 'reranking_type'));
    it('422 a field that does not exist', () => refused({ temperature: 2 }, 422));
    it('422 a chat of a team without a team', () => refused({ visibility: 'team_level' }, 422, 'team_ids'));
    it('404 a chat of a team without the user', async () => {
      const bob = await stack.signUp('Bob');
      const { body } = await bob.post('/entity/teams', { name: 'Others' }, 201);
      await refused({ visibility: 'team_level', team_ids: [(body as { id: string }).id] }, 404);
      await refused({ visibility: 'team_level', team_ids: [uuidv7()] }, 404);
    });
    it('404 a chat that was deleted', async () => {
      const { chat_id } = await ask(ada, { agent_id: agentId, message: 'A loan?' }, 201);
      await ada.delete(`/chat/${chat_id}`, 204);
      for (const path of paths) await ada.post(path, { chat_id, message: 'Are you there?' }, 404);
    });

    it('and stores no chat', async () => {
      const own = await stack.signUp('Eve');
      const agent_id = await aPublishedAgent(own);
      await own.post('/chat', { agent_id, message: 'A loan?', include_document_ids: [uuidv7()] }, 422);
      await own.post('/chat', { agent_id, message: 'A loan?', visibility: 'team_level', team_ids: [uuidv7()] }, 404);
      expect((await own.get('/chat', 200)).body).include({ total: 0 });
    });
  });

  describe('takes', () => {
    const texts = {
      'control characters': 'A\u0007 loan\u001b[31m? \r\n\u0085',
      'text that turns its direction': 'A \u202eloan\u202c \u2066?\u2069',
      'invisible characters': 'A\u200b loan\u2060?\ufeff',
      '100,000 emoji': '😀'.repeat(100_000),
      'one character of many marks': `A loan${'\u0301'.repeat(5_000)}?`,
    };
    for (const [what, message] of Object.entries(texts)) {
      it(`${what}, and stores them unchanged`, async () => {
        const { chat_id } = await ask(ada, { agent_id: agentId, message }, 201);
        const { body } = await ada.get(`/chat/${chat_id}`, 200);
        expect((body as { messages: { content: string }[] }).messages[0]?.content === message).equal(true);
        await ada.get(`/chat/${chat_id}/export`, 200);
      });
    }

    it('an empty list of documents as if it were omitted', async () => {
      await ask(ada, { agent_id: agentId, message: 'A loan?', include_document_ids: [] }, 201);
    });
  });

  it('finishes an answer whose agent is deleted meanwhile, and refuses the next message', async () => {
    const own = await aPublishedAgent(ada);
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    const events = await openChatStream(ada, { agent_id: own, message: 'How is a loan repaid?' });
    await events.next();
    await stack.container.db('agents').where({ id: own }).update({ deletedAt: new Date() });
    finish.resolve();
    const { chat_id, reply } = chatMessageSchema.parse((await collect(events)).at(-1)?.data);
    expect(reply).equal('Month by month.');
    for (const path of paths) await ada.post(path, { chat_id, message: 'Are you there?' }, 409);
  });
});

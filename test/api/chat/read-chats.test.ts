import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

type Page = { items: { id: string; title: string }[]; next_cursor: string | null; total: number };

describe('reading chats', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  const chatIds: string[] = [];

  before(async () => {
    stack = await scriptedStack();
    stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' }));
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
    for (const message of ['First loan?', 'Second loan?', 'Third loan?']) {
      chatIds.unshift((await ask(ada, { agent_id: agentId, message }, 201)).chat_id);
    }
  });

  const list = async (query = ''): Promise<Page> => (await ada.get(`/chat${query}`, 200)).body as Page;
  const idsOf = (page: Page) => page.items.map((item) => item.id);

  describe('GET /chat', () => {
    it('200 with the newest change first', async () => {
      const page = await list();
      expect(idsOf(page)).deep.equal(chatIds);
      expect(page).include({ total: 3, next_cursor: null });
    });

    it('200 with pages without a gap or a repetition', async () => {
      const first = await list('?limit=2');
      const second = await list(`?limit=2&cursor=${first.next_cursor}`);
      expect([...idsOf(first), ...idsOf(second)]).deep.equal(chatIds);
      expect(second.next_cursor).equal(null);
    });

    it('200 filters by agent', async () => {
      const other = await aPublishedAgent(ada);
      expect((await list(`?agent_id=${other}`)).total).equal(0);
      expect((await list(`?agent_id=${agentId}&mine=true`)).total).equal(3);
    });

    it('200 without chats of other organizations', async () => {
      const stranger = await stack.signUp('Eve');
      expect((await stranger.get('/chat', 200)).body).deep.include({ items: [], total: 0 });
    });

    it('400 for a cursor of another list', async () => {
      const { next_cursor } = await list('?limit=2');
      const { body } = await ada.get(`/chat?mine=true&cursor=${next_cursor}`, 400);
      expect(body).include({ code: 'invalid_cursor' });
    });

    it('401 without a token', async () => {
      await stack.anonymous.get('/chat', 401);
    });

    it('422 for an invalid filter', async () => {
      await ada.get('/chat?agent_id=unknown', 422);
    });
  });

  describe('GET /chat/{chat_id}', () => {
    it('200 with the whole conversation', async () => {
      const { body } = await ada.get(`/chat/${chatIds[2]}`, 200);
      expect(body).deep.include({
        chat_id: chatIds[2],
        agent_id: agentId,
        agent_deleted: false,
        messages: [
          { role: 'user', content: 'First loan?', pruned: false, citations: [] },
          {
            role: 'assistant',
            content: 'A loan is repaid month by month.',
            pruned: false,
            citations: [],
            tool_calls: [],
          },
        ],
      });
    });

    it('401 without a token', async () => {
      await stack.anonymous.get(`/chat/${chatIds[0]}`, 401);
    });

    it('404 for an unknown chat, a chat of another organization, and an invalid id', async () => {
      await ada.get(`/chat/${uuidv7()}`, 404);
      await ada.get('/chat/first', 404);
      const stranger = await stack.signUp('Eve');
      const { body } = await stranger.get(`/chat/${chatIds[0]}`, 404);
      expect(body).include({ code: 'chat_not_found' });
    });
  });
});

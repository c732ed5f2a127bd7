import { expect } from 'chai';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

type Page = { items: { id: string; title: string }[]; next_cursor: string | null; total: number };

describe('chats', () => {
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
  const _read = async (chatId: string) => (await ada.get(`/chat/${chatId}`, 200)).body;

  it('are listed to users who may read them, newest change first, in pages and by agent', async () => {
    const grace = await stack.signUp('Grace');
    const agent_id = await aPublishedAgent(grace);
    const ids: string[] = [];
    for (const message of ['First?', 'Second?', 'Third?']) {
      ids.unshift((await ask(grace, { agent_id, message }, 201)).chat_id);
    }
    const list = async (query = ''): Promise<Page> => (await grace.get(`/chat${query}`, 200)).body as Page;
    const idsOf = ({ items }: Page) => items.map(({ id }) => id);
    const all = await list();
    expect([idsOf(all), all.total, all.next_cursor]).deep.equal([ids, 3, null]);
    const first = await list('?limit=2');
    const second = await list(`?limit=2&cursor=${first.next_cursor}`);
    expect([...idsOf(first), ...idsOf(second)]).deep.equal(ids);
    expect(second.next_cursor).equal(null);
    expect((await list(`?agent_id=${await aPublishedAgent(grace)}`)).total).equal(0);
    expect((await list(`?agent_id=${agent_id}&mine=true`)).total).equal(3);
    const mixed = await grace.get(`/chat?mine=true&cursor=${first.next_cursor}`, 400);
    expect(mixed.body).include({ code: 'invalid_cursor' });
    const stranger = await stack.signUp('Eve');
    expect((await stranger.get('/chat', 200)).body).deep.include({ items: [], total: 0 });
  });

  it('can be renamed by their user, also with an ETag from before a round was scored', async () => {
    const { chat_id, postprocess_job_id } = await newChat();
    const etag = (await ada.get(`/chat/${chat_id}`, 200)).headers.get('etag') ?? '';
    await untilRun(ada, postprocess_job_id, 'succeeded');
    const { body } = await ada.patch(`/chat/${chat_id}`, { title: '  My loan ' }, 200, { 'if-match': etag });
    expect(body).include({ id: chat_id, title: 'My loan', round: 1 });
  });

  describe('exported by GET /chat/{chat_id}/export', () => {
    let path: string;
    before(async () => {
      stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
      const { chat_id } = await newChat();
      path = `/chat/${chat_id}/export`;
      await ada.patch(`/chat/${chat_id}`, { title: 'Loans / of "mine"' }, 200);
      stack.model.behave(() => ({ kind: 'status', status: 400 }));
      await ada.post('/chat', { chat_id, message: 'And a mortgage?' }, 502);
      stack.model.behave(() => ({ kind: 'answer', text: 'Over many *years*.' }));
      await ask(ada, { chat_id, message: 'For how long?' }, 200);
    });

    it('are Markdown with every turn by default', async () => {
      const { body, headers } = await ada.get(path, 200);
      expect(headers.get('content-type')).equal('text/markdown; charset=utf-8');
      expect(headers.get('content-disposition')).match(/^attachment; /);
      const [{ created_at }] = Object((await ada.get('/chat', 200)).body).items;
      const parts = [
        ...['# Loans / of "mine"', `Agent: Loans  \nDate: ${created_at.slice(0, 10)}`],
        ...['## User', 'How is a loan repaid?', '## Assistant', 'Month by month.'],
        ...['## User', 'And a mortgage?', '## Assistant', '*No answer (model_rejected).*'],
        ...['## User', 'For how long?', '## Assistant', 'Over many *years*.\n'],
      ];
      expect(body).equal(parts.join('\n\n'));
      expect((await ada.get(`${path}?format=markdown`, 200)).body).equal(body);
    });

    it('are JSON with every turn on request', async () => {
      const { body, headers } = await ada.get(`${path}?format=json`, 200);
      expect(headers.get('content-type')).equal('application/json; charset=utf-8');
      const exported = body as { turns: { role: string; content: string }[] };
      expect(exported).include({ agent: 'Loans', title: 'Loans / of "mine"' });
      expect(exported).property('created_at').match(/Z$/);
      expect(exported.turns.map(({ role, content }) => `${role}: ${content}`)).deep.equal([
        ...['user: How is a loan repaid?', 'assistant: Month by month.', 'user: And a mortgage?'],
        ...['user: For how long?', 'assistant: Over many *years*.'],
      ]);
    });

    it('can be read in ranges (206, 416), and not in an unknown format (400)', async () => {
      expect((await ada.get(path, 206, { range: 'bytes=2-6' })).body).equal('Loans');
      await ada.get(path, 416, { range: 'bytes=100000-' });
      const { body } = await ada.get(`${path}?format=pdf`, 400);
      expect(body).include({ code: 'unsupported_export_format' });
    });
  });

  const rowsOf = (table: string, chatId: string) => stack.container.db(table).where({ chatId });

  it('are deleted with their rounds, jobs and stored responses; other stored responses stay', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const note = { name: 'Note', content: 'Kept.', source_format: 'text' };
    const { body } = await ada.post('/documents/paste', note, 201, headers);
    const { chat_id, postprocess_job_id } = await newChat({}, headers);
    await ada.delete(`/chat/${chat_id}`, 204);
    await ada.get(`/chat/${chat_id}`, 404);
    await ada.get(`/jobs/${postprocess_job_id}`, 404);
    for (const path of ['/chat', '/chat/stream']) await ada.post(path, { chat_id, message: 'Still there?' }, 404);
    await ada.delete(`/chat/${chat_id}`, 404);
    expect(await rowsOf('rounds', chat_id)).deep.equal([]);
    const keys = stack.container.db('idempotency_keys').where({ key: headers['idempotency-key'] });
    expect(await keys.pluck('route')).deep.equal(['POST /documents/paste']);
    expect((await ada.post('/documents/paste', note, 201, headers)).body).include({ id: Object(body).id });
  });

  it('can be deleted during an answer: the stream ends with an error, and the answer is not stored', async () => {
    const { chat_id } = await newChat();
    const finish = Promise.withResolvers<void>();
    stack.model.behave(() => ({ kind: 'answer', text: 'It is written in vain.', until: finish.promise }));
    const events = await openChatStream(ada, { chat_id, message: 'And then?' });
    await events.next();
    await ada.delete(`/chat/${chat_id}`, 204);
    finish.resolve();
    expect((await collect(events)).at(-1)).property('event', 'error');
    expect(await rowsOf('rounds', chat_id)).deep.equal([]);
    // A process stores the events of all answers together: another answer flushes what this one has left.
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    const { chat_id: other } = await newChat();
    await until('the other answer is stored', () => rowsOf('round_events', other).first());
    expect(await rowsOf('round_events', chat_id)).deep.equal([]);
  });
});

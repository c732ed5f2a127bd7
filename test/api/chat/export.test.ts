import { expect } from 'chai';
import { aColleague, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('GET /chat/{chat_id}/export', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  let chatId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    const first = await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?', visibility: 'org_level' }, 201);
    chatId = first.chat_id;
    await ada.patch(`/chat/${chatId}`, { title: 'Loans / of "mine"' }, 200);
    stack.model.behave(() => ({ kind: 'status', status: 400 }));
    await ada.post('/chat', { chat_id: chatId, message: 'And a mortgage?' }, 502);
    stack.model.behave(() => ({ kind: 'answer', text: 'Over many *years*.' }));
    await ask(ada, { chat_id: chatId, message: 'For how long?' }, 200);
  });

  it('200 with every turn as Markdown by default', async () => {
    const { body, headers } = await ada.get(`/chat/${chatId}/export`, 200);
    expect(headers.get('content-type')).equal('text/markdown; charset=utf-8');
    expect(headers.get('content-disposition')).match(/^attachment; filename="Loans _* ?of _?mine_?\.md"|^attachment; /);
    const [{ created_at }] = Object((await ada.get('/chat', 200)).body).items;
    expect(body).equal(
      [
        '# Loans / of "mine"',
        `Agent: Loans  \nDate: ${created_at.slice(0, 10)}`,
        '## User',
        'How is a loan repaid?',
        '## Assistant',
        'Month by month.',
        '## User',
        'And a mortgage?',
        '## Assistant',
        '*No answer (model_rejected).*',
        '## User',
        'For how long?',
        '## Assistant',
        'Over many *years*.\n',
      ].join('\n\n'),
    );
    expect((await ada.get(`/chat/${chatId}/export?format=markdown`, 200)).body).equal(body);
  });

  it('200 with every turn as JSON', async () => {
    const { body, headers } = await ada.get(`/chat/${chatId}/export?format=json`, 200);
    expect(headers.get('content-type')).equal('application/json; charset=utf-8');
    const exported = body as { turns: { role: string; content: string }[] };
    expect(exported).include({ chat_id: chatId, agent: 'Loans', title: 'Loans / of "mine"' });
    expect(exported).property('created_at').match(/Z$/);
    expect(exported.turns.map(({ role, content }) => [role, content])).deep.equal([
      ['user', 'How is a loan repaid?'],
      ['assistant', 'Month by month.'],
      ['user', 'And a mortgage?'],
      ['user', 'For how long?'],
      ['assistant', 'Over many *years*.'],
    ]);
  });

  it('206 with the requested range', async () => {
    const response = await ada.raw(`/chat/${chatId}/export`, { headers: { range: 'bytes=2-6' } });
    expect(response.status).equal(206);
    expect(await response.text()).equal('Loans');
  });

  it('200 for a colleague with read access', async () => {
    const colleague = await aColleague(stack, ada);
    await colleague.get(`/chat/${chatId}/export`, 200);
  });

  it('400 for another format', async () => {
    const { body } = await ada.get(`/chat/${chatId}/export?format=pdf`, 400);
    expect(body).property('code', 'unsupported_export_format');
  });

  it('416 for a range after the end', async () => {
    await ada.get(`/chat/${chatId}/export`, 416, { range: 'bytes=100000-' });
  });

  it('has both media types in the OpenAPI document', async () => {
    const { body } = await stack.anonymous.get('/openapi.json', 200);
    const { paths } = body as { paths: Record<string, { get: { responses: Record<string, { content?: object }> } }> };
    const { responses } = paths[`${stack.config.server.basePath}/chat/{chat_id}/export`]?.get ?? { responses: {} };
    for (const status of ['200', '206']) {
      expect(responses[status]?.content).have.all.keys('text/markdown', 'application/json');
    }
  });

  it('401 without a token', async () => {
    await stack.anonymous.get(`/chat/${chatId}/export`, 401);
  });

  it('404 for a user without read access', async () => {
    await (await stack.signUp('Eve')).get(`/chat/${chatId}/export`, 404);
  });
});

import { expect } from 'chai';
import { allTools } from '#src/domain/agents/tools.ts';
import { toolListSchema } from '#src/modules/tools/tools.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { stack } from '#test/support/stack.ts';
import { connectCalendar, connectSearch, type ToolStack, toolStack } from '#test/support/tool-stack.ts';

const readScope = 'https://www.googleapis.com/auth/calendar.readonly';

async function toolOf(member: Member, id: string) {
  const { items } = toolListSchema.parse((await member.get('/agents/tools', 200)).body);
  return items.find((item) => item.id === id);
}

describe('GET /agents/tools', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  it('200: lists every tool with its requirements', async () => {
    const { items } = toolListSchema.parse((await ada.get('/agents/tools', 200)).body);
    expect(items.map(({ id }) => id)).deep.equal(allTools.map(({ id }) => id));
    expect(await toolOf(ada, 'web.search')).deep.include({
      group: 'web',
      requires_credentials: true,
      auth_kind: 'api_key',
      available: true,
      connected: false,
    });
    expect((await toolOf(ada, 'web.search'))?.credential_fields).to.have.nested.property('[0].id', 'api_key');
    expect(await toolOf(ada, 'calendar.create_event')).deep.include({ auth_kind: 'oauth', credential_fields: [] });
    expect(await toolOf(ada, 'calendar.create_event')).to.have.nested.include({
      'actions[0].crudl': 'create',
      'actions[0].granted': false,
    });
  });

  it('200: shows a tool that needs no connection as connected and granted', async () => {
    const builtIn = allTools.filter(({ provider }) => provider === null);
    for (const { id } of builtIn) {
      const tool = await toolOf(ada, id);
      expect(tool, id).deep.include({ requires_credentials: false, auth_kind: 'none', connected: true });
      expect(tool?.actions.every(({ granted }) => granted)).equal(true);
    }
  });

  it('200: follows what its own organization is connected to, for every member', async () => {
    const grace = await aColleague(api, ada);
    const stranger = await api.signUp();
    await connectSearch(api, ada);
    await connectCalendar(api, ada, { scopes: [readScope] });
    for (const member of [ada, grace]) {
      expect(await toolOf(member, 'web.search')).deep.include({ connected: true });
      const list = await toolOf(member, 'calendar.list_events');
      expect(list).to.have.nested.include({ connected: true, 'actions[0].granted': true });
      const create = await toolOf(member, 'calendar.create_event');
      expect(create).to.have.nested.include({ connected: true, 'actions[0].granted': false });
    }
    expect(await toolOf(stranger, 'web.search')).to.have.nested.include({
      connected: false,
      'actions[0].granted': false,
    });
  });

  it('200: shows tools of a provider without an OAuth client as unavailable', async () => {
    const plain = await stack();
    const eve = await plain.signUp();
    expect(await toolOf(eve, 'calendar.list_events')).deep.include({ available: false });
    expect(await toolOf(eve, 'web.search')).deep.include({ available: true });
  });

  it('200: does not shadow the route of an agent', async () => {
    expect((await ada.get('/agents/toolz', 404)).body).include({ code: 'agent_not_found' });
    expect((await ada.get('/agents/hidden', 200)).body).deep.equal({ ids: [] });
  });

  it('401: without a token', async () => {
    await api.anonymous.get('/agents/tools', 401);
  });
});

describe('GET /agents/tools/connections', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  it('200: lists providers with auth kind and the actions of an admin', async () => {
    const { body } = await ada.get('/agents/tools/connections', 200);
    const [brave, google] = Object(body).items;
    expect(body).include({ is_org_admin: true });
    expect(brave).deep.include({
      id: null,
      provider: 'brave_search',
      name: 'Brave Search',
      connected: false,
      status: 'not_connected',
      configured: true,
      auth_mode: 'api_key',
      category: 'integration',
      scope_options: [],
      tools: ['web.search'],
      auth_actions: ['connect'],
    });
    expect(google).deep.include({ provider: 'google_calendar', auth_mode: 'oauth', credential_fields: [] });
    expect(google.scope_options).length(2);
    expect(google.actions.map(({ id }: { id: string }) => id)).deep.equal(google.tools);
  });

  it('200: shows what was consented to, and not the credentials', async () => {
    const key = await connectSearch(api, ada);
    await connectCalendar(api, ada, { scopes: [readScope] });
    const { body } = await ada.get('/agents/tools/connections', 200);
    const [brave, google] = Object(body).items;
    expect(brave).deep.include({ connected: true, status: 'active', auth_actions: ['reconnect', 'disconnect'] });
    expect(google.scope_options.map(({ granted }: { granted: boolean }) => granted)).deep.equal([true, false]);
    const text = JSON.stringify(body);
    for (const secret of [key, ...api.google.secrets]) expect(text).not.contain(secret);
  });

  it('200: shows members the same without actions', async () => {
    const grace = await aColleague(api, ada);
    const { body } = await grace.get('/agents/tools/connections', 200);
    expect(body).to.have.nested.include({ is_org_admin: false, 'items[0].connected': true });
    for (const { auth_actions } of Object(body).items) expect(auth_actions).deep.equal([]);
  });

  it('401: without a token', async () => {
    await api.anonymous.get('/agents/tools/connections', 401);
  });
});

import { expect } from 'chai';
import { allTools } from '#src/domain/agents/tools.ts';
import { toolListSchema } from '#src/modules/tools/tools.schema.ts';
import { aColleague, aPublishedAgent } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { stack } from '#test/support/stack.ts';
import { connectCalendar, connectSearch, readScope, type ToolStack, toolStack } from '#test/support/tool-stack.ts';

describe('the tools of an organization', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const toolsOf = async (member: Member) => toolListSchema.parse((await member.get('/agents/tools', 200)).body).items;
  const toolOf = async (member: Member, id: string) => (await toolsOf(member)).find((item) => item.id === id);
  const connectionsOf = async (member: Member) => {
    const { items, ...others } = Object((await member.get('/agents/tools/connections', 200)).body);
    return { ...others, brave: items[0], google: items[1], all: items };
  };

  it('are all listed with their requirements, beside the routes of agents', async () => {
    expect((await toolsOf(ada)).map(({ id }) => id)).deep.equal(allTools.map(({ id }) => id));
    const search = await toolOf(ada, 'web.search');
    expect(search).include({ group: 'web', requires_credentials: true, auth_kind: 'api_key' });
    expect(search).include({ available: true, connected: false }).nested.property('credential_fields[0].id', 'api_key');
    const create = await toolOf(ada, 'calendar.create_event');
    expect(create).deep.include({ auth_kind: 'oauth', credential_fields: [] });
    expect(create).nested.include({ 'actions[0].crudl': 'create', 'actions[0].granted': false });
    for (const { id } of allTools.filter(({ provider }) => provider === null)) {
      const builtIn = await toolOf(ada, id);
      expect(builtIn, id).include({ requires_credentials: false, auth_kind: 'none', connected: true });
      expect(builtIn?.actions.every(({ granted }) => granted)).equal(true);
    }
    expect((await ada.get('/agents/toolz', 404)).body).include({ code: 'agent_not_found' });
    expect((await ada.get('/agents/hidden', 200)).body).deep.equal({ ids: [] });
  });

  it('are unavailable in a deployment without an OAuth client for their provider', async () => {
    const eve = await (await stack()).signUp();
    expect(await toolOf(eve, 'calendar.list_events')).include({ available: false });
    expect(await toolOf(eve, 'web.search')).include({ available: true });
  });

  it('can be connected by an admin, to whom their providers are listed with the actions', async () => {
    const { brave, google, is_org_admin } = await connectionsOf(ada);
    expect(is_org_admin).equal(true);
    expect(brave).deep.include({
      ...{ id: null, provider: 'brave_search', name: 'Brave Search', connected: false, status: 'not_connected' },
      ...{ configured: true, auth_mode: 'api_key', category: 'integration', scope_options: [] },
      ...{ tools: ['web.search'], auth_actions: ['connect'] },
    });
    expect(google).deep.include({ provider: 'google_calendar', auth_mode: 'oauth', credential_fields: [] });
    expect(google.scope_options).length(2);
    expect(google.actions.map(({ id }: { id: string }) => id)).deep.equal(google.tools);
  });

  it('are connected for every member of the organization alone, as far as was consented, without credentials', async () => {
    const [grace, stranger] = [await aColleague(api, ada), await api.signUp()];
    const key = await connectSearch(api, ada);
    await connectCalendar(api, ada, { scopes: [readScope] });
    for (const member of [ada, grace]) {
      expect(await toolOf(member, 'web.search')).include({ connected: true });
      const [list, create] = [
        await toolOf(member, 'calendar.list_events'),
        await toolOf(member, 'calendar.create_event'),
      ];
      expect(list).nested.include({ connected: true, 'actions[0].granted': true });
      expect(create).nested.include({ connected: true, 'actions[0].granted': false });
    }
    expect(await toolOf(stranger, 'web.search')).nested.include({ connected: false, 'actions[0].granted': false });

    const { brave, google, all } = await connectionsOf(ada);
    expect(brave).deep.include({ connected: true, status: 'active', auth_actions: ['reconnect', 'disconnect'] });
    expect(google.scope_options.map(({ granted }: { granted: boolean }) => granted)).deep.equal([true, false]);
    for (const secret of [key, ...api.google.secrets]) expect(JSON.stringify(all)).not.contain(secret);
    const seen = await connectionsOf(grace);
    expect(seen).nested.include({ is_org_admin: false, 'brave.connected': true });
    for (const { auth_actions } of seen.all) expect(auth_actions).deep.equal([]);
  });

  it('make an agent ready while the organization has the connections that they need', async () => {
    const [bob, eve] = [await api.signUp(), await api.signUp('Eve')];
    const id = await aPublishedAgent(bob, { enabled_tools: ['web.search', 'time.now'] });
    const isReady = async () => Object((await bob.get(`/agents/${id}`, 200)).body).ready;
    await connectSearch(api, eve);
    expect(await isReady()).equal(false);
    const key = await connectSearch(api, bob);
    expect(await isReady()).equal(true);
    expect(Object((await bob.get('/agents', 200)).body).items[0]).include({ id, ready: true });
    api.brave.withdraw(key);
    await bob.delete('/agents/tools/brave_search/connection', 204);
    expect(await isReady()).equal(false);
  });
});

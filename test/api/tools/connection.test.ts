import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { connectCalendar, connectionOf, connectSearch, type ToolStack, toolStack } from '#test/support/tool-stack.ts';

const search = '/agents/tools/brave_search/connection';
const calendar = '/agents/tools/google_calendar/connection';

describe('the connection of a tool', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const stored = ({ orgId }: Member) => api.container.db('tool_connections').where({ orgId });
  const actionsOf = async (id: string) => (await auditEntries(api, id)).map(({ action }) => action);

  it('204: is made by a valid key, which is stored encrypted and can be replaced', async () => {
    const key = await connectSearch(api, ada);
    const { id, ...entry } = await connectionOf(ada, 'brave_search');
    expect(entry).include({ connected: true, status: 'active' });
    const [audited] = await auditEntries(api, id);
    expect(audited).include({ actorId: ada.userId });
    for (const written of [await stored(ada), audited]) expect(JSON.stringify(written)).not.contain(key);
    await connectSearch(api, ada);
    expect(await connectionOf(ada, 'brave_search')).include({ id });
    expect(await actionsOf(id)).deep.equal(['tool.connected', 'tool.reconnected']);
  });

  it('204: is one, also when two admins make it at once', async () => {
    const bob = await api.signUp();
    const grace = await aColleague(api, bob, 'Grace', { is_admin: true });
    await Promise.all([connectSearch(api, bob), connectSearch(api, grace), connectSearch(api, bob)]);
    expect(await stored(bob)).length(1);
  });

  it('422: stays as it was when the provider refuses a new key, which no answer repeats', async () => {
    const before = await stored(ada);
    for (const status of [null, 401, 403, 422]) {
      if (status !== null) api.brave.failNext(1, { status, text: 'about s3cret-guess' });
      const { body } = await ada.post(search, { api_key: 's3cret-guess' }, 422);
      expect(body).include({ code: 'connection_check_failed' });
      expect(JSON.stringify(body)).not.contain('s3cret-guess');
    }
    expect(await stored(ada)).deep.equal(before);
  });

  it('503: is not made while the provider is unavailable or answers unexpectedly', async () => {
    for (const trouble of [{ status: 500 }, { status: 429 }, { status: 404 }, { status: 200, text: '<html>' }]) {
      api.brave.failNext(1, trouble);
      const { body } = await ada.post(search, { api_key: api.brave.newKey() }, 503);
      expect(body).include({ code: 'provider_unavailable' });
    }
  });

  it('409 and 404: is not made with a key at a provider of OAuth, and does not exist for an unknown provider', async () => {
    expect((await ada.post(calendar, { api_key: 'k' }, 409)).body).include({ code: 'wrong_auth_kind' });
    const unknown = '/agents/tools/unknown/connection';
    for (const { body } of [await ada.post(unknown, { api_key: 'k' }, 404), await ada.delete(unknown, 404)]) {
      expect(body).include({ code: 'provider_not_found' });
    }
  });

  it('204: is deleted with its grant, once or again, also during an outage of the provider', async () => {
    const stranger = await api.signUp();
    await connectSearch(api, stranger);
    await connectCalendar(api, ada);
    const { id } = await connectionOf(ada, 'google_calendar');
    const before = api.google.liveGrants();
    for (const _ of [1, 2]) await ada.delete(calendar, 204);
    expect(api.google.liveGrants()).equal(before - 1);
    const none = { id: null, status: 'not_connected', auth_actions: ['connect'] };
    expect(await connectionOf(ada, 'google_calendar')).deep.include(none);
    expect(await actionsOf(id)).deep.equal(['tool.connected', 'tool.disconnected']);
    await connectCalendar(api, ada);
    api.google.failNext(1, { status: 503 });
    await ada.delete(calendar, 204);
    expect(await connectionOf(ada, 'google_calendar')).include({ status: 'not_connected' });
    await stranger.delete(search, 204);
    expect(await connectionOf(ada, 'brave_search'), 'of another organization and provider').include({
      status: 'active',
    });
  });
});

import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { connectCalendar, connectionOf, connectSearch, type ToolStack, toolStack } from '#test/support/tool-stack.ts';

const path = '/agents/tools/brave_search/connection';

describe('POST /agents/tools/{provider}/connection', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  it('204: connects with a valid key and stores it encrypted', async () => {
    const key = await connectSearch(api, ada);
    const { id, ...entry } = await connectionOf(ada, 'brave_search');
    expect(entry).include({ connected: true, status: 'active' });
    const rows = await api.container.db('tool_connections').where({ orgId: ada.orgId });
    expect(JSON.stringify(rows)).not.contain(key);
    const audit = await auditEntries(api, id);
    expect(audit[0]).include({ actorId: ada.userId, action: 'tool.connected' });
    expect(JSON.stringify(audit)).not.contain(key);
  });

  it('204: replaces the key', async () => {
    const { id } = await connectionOf(ada, 'brave_search');
    await connectSearch(api, ada);
    expect(await connectionOf(ada, 'brave_search')).include({ id });
    expect((await auditEntries(api, id)).at(-1)).include({ action: 'tool.reconnected' });
  });

  it('204: leaves one connection when two admins connect at once', async () => {
    const bob = await api.signUp();
    const grace = await aColleague(api, bob, 'Grace', { is_admin: true });
    await Promise.all([connectSearch(api, bob), connectSearch(api, grace), connectSearch(api, bob)]);
    expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
  });

  it('401: without a token', async () => {
    await api.anonymous.post(path, { api_key: 'k' }, 401);
  });

  it('403: rejects a member who is no admin, whatever the body', async () => {
    const grace = await aColleague(api, ada);
    for (const sent of [{ api_key: api.brave.newKey() }, {}]) {
      expect((await grace.post(path, sent, 403)).body).include({ code: 'forbidden' });
    }
  });

  it('404: rejects an unknown provider', async () => {
    const { body } = await ada.post('/agents/tools/nobody/connection', { api_key: 'k' }, 404);
    expect(body).include({ code: 'provider_not_found' });
  });

  it('409: rejects a provider that is connected by OAuth', async () => {
    const { body } = await ada.post('/agents/tools/google_calendar/connection', { api_key: 'k' }, 409);
    expect(body).include({ code: 'wrong_auth_kind' });
  });

  it('422: rejects a key that the provider refuses, without repeating it, and keeps the old one', async () => {
    const before = await api.container.db('tool_connections').where({ orgId: ada.orgId }).first();
    const { body } = await ada.post(path, { api_key: 's3cret-guess' }, 422);
    expect(body).include({ code: 'connection_check_failed' });
    expect(JSON.stringify(body)).not.contain('s3cret-guess');
    for (const status of [401, 403, 422]) {
      api.brave.failNext(1, { status, text: 'about s3cret-guess' });
      const refused = await ada.post(path, { api_key: 's3cret-guess' }, 422);
      expect(refused.body).include({ code: 'connection_check_failed' });
      expect(JSON.stringify(refused.body)).not.contain('s3cret-guess');
    }
    expect(await api.container.db('tool_connections').where({ orgId: ada.orgId }).first()).deep.equal(before);
  });

  it('422: rejects a malformed key', async () => {
    for (const sent of [
      {},
      { api_key: '' },
      { api_key: '  ' },
      { api_key: 'two words' },
      { api_key: 'line\nbreak' },
      { api_key: 'x'.repeat(513) },
      { api_key: 7 },
      { api_key: 'k', scopes: [] },
    ]) {
      expect((await ada.post(path, sent, 422)).body, JSON.stringify(sent)).include({ code: 'validation_failed' });
    }
  });

  it('503: reports that the provider is unavailable or answers unexpectedly', async () => {
    const key = api.brave.newKey();
    for (const trouble of [{ status: 500 }, { status: 429 }, { status: 404 }, { status: 200, text: '<html>' }]) {
      api.brave.failNext(1, trouble);
      expect((await ada.post(path, { api_key: key }, 503)).body).include({ code: 'provider_unavailable' });
    }
  });
});

describe('DELETE /agents/tools/{provider}/connection', () => {
  const calendar = '/agents/tools/google_calendar/connection';
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  it('204: deletes the connection and revokes the grant, and is idempotent', async () => {
    await connectCalendar(api, ada);
    const { id } = await connectionOf(ada, 'google_calendar');
    const before = api.google.liveGrants();
    await ada.delete(calendar, 204);
    expect(api.google.liveGrants()).equal(before - 1);
    expect(await connectionOf(ada, 'google_calendar')).deep.include({
      id: null,
      status: 'not_connected',
      auth_actions: ['connect'],
    });
    await ada.delete(calendar, 204);
    const audit = await auditEntries(api, id);
    expect(audit.map(({ action }) => action)).deep.equal(['tool.connected', 'tool.disconnected']);
  });

  it('204: deletes the connection also while the provider is unavailable', async () => {
    await connectCalendar(api, ada);
    api.google.failNext(1, { status: 503 });
    await ada.delete(calendar, 204);
    expect(await connectionOf(ada, 'google_calendar')).include({ status: 'not_connected' });
  });

  it('204: keeps connections of other organizations and providers', async () => {
    const stranger = await api.signUp();
    await connectSearch(api, ada);
    await connectSearch(api, stranger);
    await stranger.delete(path, 204);
    await ada.delete(calendar, 204);
    expect(await connectionOf(ada, 'brave_search')).include({ status: 'active' });
  });

  it('401: without a token', async () => {
    await api.anonymous.delete(calendar, 401);
  });

  it('403: for a member who is no admin', async () => {
    const grace = await aColleague(api, ada);
    expect((await grace.delete(path, 403)).body).include({ code: 'forbidden' });
  });

  it('404: rejects an unknown provider', async () => {
    expect((await ada.delete('/agents/tools/nobody/connection', 404)).body).include({ code: 'provider_not_found' });
  });
});

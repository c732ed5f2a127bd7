import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import {
  anotherProcess,
  callProviderTool,
  connectCalendar,
  connectionOf,
  connectSearch,
  type ToolStack,
  toolStack,
} from '#test/support/tool-stack.ts';

const readScope = 'https://www.googleapis.com/auth/calendar.readonly';

describe('credentials of tool connections', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
  });
  beforeEach(async () => {
    ada = await api.signUp();
  });
  afterEach(() => {
    api.google.rotate(false);
    api.google.lifetimeSeconds(3_600);
  });

  const listEvents = (of: Container = api.container) => callProviderTool(of, ada, 'calendar.list_events');
  const tokenCalls = () => api.google.calls.filter(({ url }) => url.pathname === '/token').length;
  const statusOf = async () => Object(await connectionOf(ada, 'google_calendar')).status;

  it('exist only in organizations that have connected', async () => {
    expect(await appErrorCode(listEvents())).equal('not_connected');
    expect(await appErrorCode(callProviderTool(api.container, ada, 'web.search', { query: 'x' }))).equal(
      'not_connected',
    );
  });

  it('are used without a refresh while they are fresh', async () => {
    await connectCalendar(api, ada);
    const before = tokenCalls();
    await listEvents();
    await listEvents();
    expect(tokenCalls()).equal(before);
  });

  it('are refreshed before they expire, once for concurrent calls of several processes', async () => {
    api.google.lifetimeSeconds(10);
    api.google.rotate(true);
    await connectCalendar(api, ada);
    const other = anotherProcess(api, {});
    const before = tokenCalls();
    api.google.lifetimeSeconds(3_600);
    await Promise.all([api.container, other, api.container, other].map((process) => listEvents(process)));
    expect(tokenCalls()).equal(before + 1);
    expect(await statusOf()).equal('active');
    await other.close();
  });

  it('are refreshed when the provider rejects them, and the call is repeated', async () => {
    await connectCalendar(api, ada);
    api.google.expireTokens();
    expect(await listEvents()).equal('There are no events in this span.');
    expect(await statusOf()).equal('active');
  });

  it('keep the newest refresh token', async () => {
    api.google.rotate(true);
    await connectCalendar(api, ada);
    for (const _ of [1, 2, 3]) {
      api.google.expireTokens();
      await listEvents();
    }
    expect(await statusOf()).equal('active');
  });

  it('fail with needs_reauth after the grant is revoked, until the next consent', async () => {
    await connectCalendar(api, ada);
    api.google.revokeGrants();
    expect(await appErrorCode(listEvents())).equal('needs_reauth');
    const { id, ...entry } = await connectionOf(ada, 'google_calendar');
    expect(entry).deep.include({ connected: false, status: 'needs_reauth', auth_actions: ['reconnect', 'disconnect'] });
    expect(entry.actions.some(({ granted }: { granted: boolean }) => granted)).equal(false);
    expect((await auditEntries(api, id)).at(-1)).include({ actorId: null, action: 'tool.needs_reauth' });
    const calls = api.google.calls.length;
    expect(await appErrorCode(listEvents())).equal('needs_reauth');
    expect(api.google.calls).length(calls);
    await connectCalendar(api, ada);
    await listEvents();
    expect((await auditEntries(api, id)).map(({ action }) => action)).deep.equal([
      'tool.connected',
      'tool.needs_reauth',
      'tool.reconnected',
    ]);
  });

  it('are used until they expire during a provider outage', async () => {
    api.google.lifetimeSeconds(60);
    await connectCalendar(api, ada);
    api.google.failNext(1, { status: 503 });
    await listEvents();
  });

  it('fail with provider_unavailable if they expire during an outage, and stay active', async () => {
    await connectCalendar(api, ada);
    await api.container
      .db('tool_connections')
      .where({ orgId: ada.orgId })
      .update({ expiresAt: new Date(0) });
    api.google.failNext(1, { status: 500, json: { error: 'invalid_grant' } });
    expect(await appErrorCode(listEvents())).equal('provider_unavailable');
    expect(await statusOf()).equal('active');
    await listEvents();
  });

  it('are not overwritten by a refresh that began before a new consent', async () => {
    await connectCalendar(api, ada);
    const row = () => api.container.db('tool_connections').where({ orgId: ada.orgId });
    await row().update({ expiresAt: new Date(0) });
    const held = api.google.holdNext();
    const listed = listEvents();
    await held.arrived;
    await connectCalendar(api, ada, { scopes: [readScope] });
    held.release();
    expect(await listed).equal('There are no events in this span.');
    expect((await row())[0]).deep.include({ scopes: [readScope], generation: 2 });
  });

  it('that arrive after their connection was deleted are revoked', async () => {
    const before = api.google.liveGrants();
    await connectCalendar(api, ada);
    await api.container
      .db('tool_connections')
      .where({ orgId: ada.orgId })
      .update({ expiresAt: new Date(0) });
    const held = api.google.holdNext();
    const listed = appErrorCode(listEvents());
    await held.arrived;
    // The revocation of the old credentials fails.
    api.google.failNext(1, { status: 503 });
    await ada.delete('/agents/tools/google_calendar/connection', 204);
    expect(api.google.liveGrants()).equal(before + 1);
    held.release();
    expect(await listed).equal('not_connected');
    expect(api.google.liveGrants()).equal(before);
  });

  it('refuse tools whose scopes were not granted', async () => {
    await connectCalendar(api, ada, { scopes: [readScope] });
    await listEvents();
    const event = { title: 'Talk', start: '2026-03-01', end: '2026-03-02' };
    expect(await appErrorCode(callProviderTool(api.container, ada, 'calendar.create_event', event))).equal(
      'not_granted',
    );
  });

  it('fail with needs_reauth once the API key is withdrawn', async () => {
    const key = await connectSearch(api, ada);
    await callProviderTool(api.container, ada, 'web.search', { query: 'loans' });
    api.brave.withdraw(key);
    const thrown = await callProviderTool(api.container, ada, 'web.search', { query: 'loans' }).catch((error) => error);
    expect(thrown).include({ code: 'needs_reauth' });
    expect(`${thrown.stack} ${JSON.stringify(thrown)}`).not.contain(key);
    expect(await connectionOf(ada, 'brave_search')).include({ status: 'needs_reauth' });
    await connectSearch(api, ada);
    await callProviderTool(api.container, ada, 'web.search', { query: 'loans' });
  });

  describe('under another encryption key', () => {
    const newKey = { id: 'next', key: randomBytes(32) };
    const keyId = async () => {
      const [row] = await api.container.db('tool_connections').where({ orgId: ada.orgId });
      return String(row.credentials).split(':')[0];
    };

    it('are re-encrypted when they are used', async () => {
      await connectSearch(api, ada);
      const rotated = anotherProcess(api, { encryptionKeys: [newKey, ...api.config.encryptionKeys] });
      expect(await keyId()).equal('1');
      await callProviderTool(rotated, ada, 'web.search', { query: 'loans' });
      expect(await keyId()).equal('next');
      await rotated.close();
      const later = anotherProcess(api, { encryptionKeys: [newKey] });
      await callProviderTool(later, ada, 'web.search', { query: 'loans' });
      await later.close();
      expect(await appErrorCode(callProviderTool(api.container, ada, 'web.search', { query: 'x' }))).equal(
        'credentials_unreadable',
      );
      await ada.delete('/agents/tools/brave_search/connection', 204);
    });

    it('are all re-encrypted by reencrypt(), which counts those that no key decrypts', async () => {
      await connectCalendar(api, ada);
      const bob = await api.signUp();
      await connectSearch(api, bob);
      const { db } = api.container;
      await db('tool_connections').where({ orgId: bob.orgId }).update({ credentials: 'gone:AAAA' });
      const rotated = anotherProcess(api, { encryptionKeys: [newKey, ...api.config.encryptionKeys] });
      const { reencrypted, unreadable } = await rotated.storedToolConnections.reencrypt();
      expect(reencrypted).least(1);
      expect(unreadable).equal(1);
      expect(await keyId()).equal('next');
      expect((await rotated.storedToolConnections.reencrypt()).reencrypted).equal(0);
      // Later tests share the stack and expect its own key.
      const back = anotherProcess(api, { encryptionKeys: [...api.config.encryptionKeys, newKey] });
      await db('tool_connections').where({ orgId: bob.orgId }).delete();
      await back.storedToolConnections.reencrypt();
      await Promise.all([rotated.close(), back.close()]);
    });

    it('cannot be decrypted in the row of another organization', async () => {
      await connectSearch(api, ada);
      const bob = await api.signUp();
      await connectSearch(api, bob);
      const { db } = api.container;
      const [stolen] = await db('tool_connections').where({ orgId: ada.orgId }).pluck('credentials');
      await db('tool_connections').where({ orgId: bob.orgId }).update({ credentials: stolen });
      const search = callProviderTool(api.container, bob, 'web.search', { query: 'loans' });
      expect(await appErrorCode(search)).equal('credentials_unreadable');
    });
  });
});

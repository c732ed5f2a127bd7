import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import {
  anotherProcess,
  callProviderTool,
  connectCalendar,
  connectionOf,
  connectSearch,
  readScope,
  type ToolStack,
  toolStack,
} from '#test/support/tool-stack.ts';

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
    Object.assign(api.google.issuing, { isRotating: false, lifetimeSeconds: 3_600 });
  });

  const listEvents = (of: Container = api.container) => callProviderTool(of, ada, 'calendar.list_events');
  const search = (of: Container = api.container, member = ada) =>
    callProviderTool(of, member, 'web.search', { query: 'loans' });
  const tokenCalls = () => api.google.calls.filter(({ url }) => url.pathname === '/token').length;
  const statusOf = async () => Object(await connectionOf(ada, 'google_calendar')).status;
  const rows = ({ orgId } = ada) => api.container.db('tool_connections').where({ orgId });
  const expire = () => rows().update({ expiresAt: new Date(0) });

  it('exist only in organizations that have connected the tool, for the scopes that were granted', async () => {
    for (const call of [listEvents, search]) expect(await appErrorCode(call())).equal('not_connected');
    await connectCalendar(api, ada, { scopes: [readScope] });
    const before = tokenCalls();
    for (const _ of [1, 2]) await listEvents();
    expect(tokenCalls(), 'fresh tokens are used as they are').equal(before);
    const event = { title: 'Talk', start: '2026-03-01', end: '2026-03-02' };
    const created = callProviderTool(api.container, ada, 'calendar.create_event', event);
    expect(await appErrorCode(created)).equal('not_granted');
  });

  it('are refreshed before they expire, once for concurrent calls of several processes', async () => {
    Object.assign(api.google.issuing, { isRotating: true, lifetimeSeconds: 10 });
    await connectCalendar(api, ada);
    const other = anotherProcess(api, {});
    const before = tokenCalls();
    api.google.issuing.lifetimeSeconds = 3_600;
    await Promise.all([api.container, other, api.container, other].map((process) => listEvents(process)));
    expect(tokenCalls()).equal(before + 1);
    expect(await statusOf()).equal('active');
    await other.close();
  });

  it('are refreshed when the provider rejects them, with the newest refresh token', async () => {
    api.google.issuing.isRotating = true;
    await connectCalendar(api, ada);
    for (const _ of [1, 2, 3]) {
      api.google.expireTokens();
      expect(await listEvents()).equal('There are no events in this span.');
    }
    expect(await statusOf()).equal('active');
  });

  it('fail with needs_reauth once the grant is revoked, and the provider is not called again until the next consent', async () => {
    await connectCalendar(api, ada);
    api.google.revokeGrants();
    expect(await appErrorCode(listEvents())).equal('needs_reauth');
    const { id, ...entry } = await connectionOf(ada, 'google_calendar');
    expect(entry).deep.include({ connected: false, status: 'needs_reauth', auth_actions: ['reconnect', 'disconnect'] });
    expect(entry.actions.some(({ granted }: { granted: boolean }) => granted)).equal(false);
    const calls = api.google.calls.length;
    expect(await appErrorCode(listEvents())).equal('needs_reauth');
    expect(api.google.calls).length(calls);
    await connectCalendar(api, ada);
    await listEvents();
    const audited = await auditEntries(api, id);
    expect(audited.map(({ action }) => action.replace('tool.', ''))).deep.equal([
      ...['connected', 'needs_reauth', 'reconnected'],
    ]);
    expect(audited[1]).include({ actorId: null });
  });

  it('are used until they expire while the provider is down, and are refreshed afterwards', async () => {
    api.google.issuing.lifetimeSeconds = 60;
    await connectCalendar(api, ada);
    api.google.failNext(1, { status: 503 });
    await listEvents();
    await expire();
    api.google.failNext(1, { status: 500, json: { error: 'invalid_grant' } });
    expect(await appErrorCode(listEvents())).equal('provider_unavailable');
    expect(await statusOf()).equal('active');
    await listEvents();
  });

  it('are not overwritten by a refresh that began before a new consent', async () => {
    await connectCalendar(api, ada);
    await expire();
    const held = api.google.holdNext();
    const listed = listEvents();
    await held.arrived;
    await connectCalendar(api, ada, { scopes: [readScope] });
    held.release();
    expect(await listed).equal('There are no events in this span.');
    expect((await rows())[0]).deep.include({ scopes: [readScope], generation: 2 });
  });

  it('are revoked if a refresh returns them after their connection was deleted', async () => {
    const before = api.google.liveGrants();
    await connectCalendar(api, ada);
    await expire();
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

  it('fail with needs_reauth once the API key is withdrawn, until an admin sets another key', async () => {
    const key = await connectSearch(api, ada);
    await search();
    api.brave.withdraw(key);
    const thrown = await search().catch((error) => error);
    expect(thrown).include({ code: 'needs_reauth' });
    expect(`${thrown.stack} ${JSON.stringify(thrown)}`).not.contain(key);
    expect(await connectionOf(ada, 'brave_search')).include({ status: 'needs_reauth' });
    await connectSearch(api, ada);
    await search();
  });

  it('are re-encrypted under a new key when used, or all by reencrypt(), which counts unreadable ones', async () => {
    const newKey = { id: 'next', key: randomBytes(32) };
    const [own, bob] = [api.config.encryptionKeys, await api.signUp()];
    const processes = [[newKey, ...own], [newKey], [...own, newKey]].map((encryptionKeys) =>
      anotherProcess(api, { encryptionKeys }),
    );
    const [rotated = api.container, later, back] = processes;
    const keyOf = async (member: Member) => String((await rows(member))[0].credentials).split(':')[0];
    await connectSearch(api, ada);
    await connectSearch(api, bob);
    expect(await keyOf(ada)).equal('1');
    await search(rotated);
    expect(await keyOf(ada)).equal('next');
    await search(later);
    expect(await appErrorCode(search())).equal('credentials_unreadable');
    const lost = await api.signUp();
    await connectSearch(api, lost);
    await rows(lost).update({ credentials: 'gone:AAAA' });
    const { reencrypted, unreadable } = await rotated.storedToolConnections.reencrypt();
    expect([reencrypted > 0, unreadable, await keyOf(bob)]).deep.equal([true, 1, 'next']);
    expect(await rotated.storedToolConnections.reencrypt()).include({ reencrypted: 0 });
    // Later tests share the stack and expect its own key.
    await rows(lost).delete();
    await back?.storedToolConnections.reencrypt();
    await Promise.all(processes.map((process) => process.close()));
  });

  it('cannot be decrypted after they are copied into the row of another organization', async () => {
    await connectSearch(api, ada);
    const bob = await api.signUp();
    await connectSearch(api, bob);
    const [{ credentials }] = await rows();
    await rows(bob).update({ credentials });
    expect(await appErrorCode(search(api.container, bob))).equal('credentials_unreadable');
  });
});

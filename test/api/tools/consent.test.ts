import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import { signUpColleague } from '#test/support/colleague.ts';
import { stack } from '#test/support/stack.ts';
import {
  anotherProcess,
  beginConsent,
  callProviderTool,
  connectionOf,
  consentTo,
  frontendUrl,
  type ToolStack,
  toolStack,
} from '#test/support/tool-stack.ts';

const google = '/agents/tools/google_calendar';
const readScope = 'https://www.googleapis.com/auth/calendar.readonly';
const writeScope = 'https://www.googleapis.com/auth/calendar.events';

describe('GET /agents/tools/{provider}/authorize', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  it('200: leads to the provider with a challenge, a state and all scopes, and keeps neither in clear', async () => {
    const url = new URL(await beginConsent(ada));
    const of = (name: string) => url.searchParams.get(name) ?? '';
    expect(url.origin).equal(api.google.baseUrl);
    expect(of('response_type')).equal('code');
    expect(of('client_id')).equal(api.google.client.id);
    expect(of('redirect_uri')).equal(`${api.baseUrl}${google}/callback`);
    expect(of('scope').split(' ')).deep.equal([readScope, writeScope]);
    expect(of('code_challenge_method')).equal('S256');
    expect(of('state')).match(/^[\w-]{43}$/);
    expect(url.href).not.contain(api.google.client.secret);
    const rows = await api.container.db('oauth_states').where({ orgId: ada.orgId });
    expect(rows).length(1);
    expect(JSON.stringify(rows)).not.contain(of('state'));
    expect(rows[0].codeVerifier).match(/^1:/);
  });

  it('200: asks for the scopes that are named, once or repeated', async () => {
    for (const [query, scopes] of [
      [`?scopes=${encodeURIComponent(readScope)}`, [readScope]],
      [`?scopes=${encodeURIComponent(writeScope)}&scopes=${encodeURIComponent(readScope)}`, [writeScope, readScope]],
    ] as const) {
      const url = new URL(await beginConsent(ada, query));
      expect(url.searchParams.get('scope')?.split(' ')).deep.equal(scopes);
    }
  });

  it('200: takes a path of the frontend, and an address of an origin that may call us', async () => {
    for (const address of ['/settings?tab=tools', `${frontendUrl}/x`, 'https://other.example.com/y']) {
      await beginConsent(ada, `?return_to=${encodeURIComponent(address)}`);
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.get(`${google}/authorize`, 401);
  });

  it('403: for a member who is no admin', async () => {
    const grace = await signUpColleague(api, ada);
    expect((await grace.get(`${google}/authorize`, 403)).body).include({ code: 'forbidden' });
  });

  it('404: for a provider that there is none of', async () => {
    for (const provider of ['nobody', 'GOOGLE_CALENDAR', '__proto__', '%00', 'brave_search%2F']) {
      const { body } = await ada.get(`/agents/tools/${provider}/authorize`, 404);
      expect(body).include({ code: 'provider_not_found' });
    }
  });

  it('409: for a provider that is connected by a key', async () => {
    expect((await ada.get('/agents/tools/brave_search/authorize', 409)).body).include({ code: 'wrong_auth_kind' });
  });

  it('422: for a return to somewhere else, and scopes that the provider does not have', async () => {
    for (const [query, field] of [
      ['return_to=https%3A%2F%2Fevil.example', 'return_to'],
      ['return_to=%2F%2Fevil.example', 'return_to'],
      ['return_to=%2F%5Cevil.example', 'return_to'],
      ['return_to=javascript%3Aalert(1)', 'return_to'],
      ['return_to=', 'return_to'],
      ['scopes=openid', 'scopes'],
      ['scopes=', 'scopes'],
      ['scope=openid', 'scope'],
    ]) {
      const { body } = await ada.get(`${google}/authorize?${query}`, 422);
      expect(Object(body).errors[0].path, query).equal(field);
    }
  });

  it('501: where the deployment has no client at the provider', async () => {
    const eve = await (await stack()).signUp();
    expect((await eve.get(`${google}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
  });
});

describe('GET /agents/tools/{provider}/callback', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const refused = async (path: string) => Object((await api.anonymous.get(path, 400)).body).code;
  const location = async (path: string) =>
    (await api.anonymous.raw(path, { redirect: 'manual' })).headers.get('location');
  /** Lets the consents that are under way become too old. */
  const outlive = async ({ orgId }: Member) => {
    const expiresAt = api.container.db.raw("now() - interval '1 second'");
    await api.container.db('oauth_states').where({ orgId }).update({ expiresAt });
  };

  it('200: connects the organization, and says how', async () => {
    const { body, headers } = await api.anonymous.get(await consentTo(api, ada), 200);
    expect(headers.get('cache-control')).equal('no-store');
    const { connection } = Object(body);
    expect(connection).deep.include({ provider: 'google_calendar', connected: true, status: 'active' });
    expect(connection.actions.every(({ granted }: { granted: boolean }) => granted)).equal(true);
    for (const secret of api.google.secrets) expect(JSON.stringify(body)).not.contain(secret);
    const [entry] = await auditEntries(api, connection.id);
    expect(entry).deep.include({ actorId: ada.userId, action: 'tool.connected' });
    expect(entry?.detail).include({ provider: 'google_calendar' });
  });

  it('200: holds what the user has left of the scopes', async () => {
    await api.anonymous.get(await consentTo(api, ada, { scopes: [writeScope] }), 200);
    const { actions, id } = await connectionOf(ada, 'google_calendar');
    expect(actions.map(({ granted }: { granted: boolean }) => granted)).deep.equal([false, true]);
    expect((await auditEntries(api, id)).at(-1)).include({ action: 'tool.reconnected' });
  });

  it('200: leaves one connection when two admins consent at once', async () => {
    const bob = await api.signUp();
    const grace = await signUpColleague(api, bob, 'Grace', { is_admin: true });
    const [one, two] = [await consentTo(api, bob), await consentTo(api, grace)];
    await Promise.all([api.anonymous.get(one, 200), api.anonymous.get(two, 200)]);
    expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
    expect(await connectionOf(bob, 'google_calendar')).include({ status: 'active' });
  });

  it('200: completes nothing for who only looks ahead', async () => {
    const path = await consentTo(api, ada);
    const response = await api.anonymous.raw(path, { method: 'HEAD' });
    expect([response.status, response.headers.get('allow')]).deep.equal([405, 'GET']);
    await api.anonymous.get(path, 200);
  });

  it('303: goes on to where the user came from, with the id of the connection', async () => {
    const path = await consentTo(api, ada, { query: `?return_to=${encodeURIComponent('/tools?tab=1')}` });
    const response = await api.anonymous.raw(path, { redirect: 'manual' });
    const { id } = await connectionOf(ada, 'google_calendar');
    expect(response.status).equal(303);
    expect(response.headers.get('location')).equal(`${frontendUrl}/tools?tab=1&connection_id=${id}`);
    expect(response.headers.get('referrer-policy')).equal('no-referrer');
    expect(await response.text()).equal('');
  });

  it('303: says how it ended in the place of what an earlier consent had said there', async () => {
    const query = `?return_to=${encodeURIComponent('/tools?error=consent_denied&connection_id=7')}`;
    const path = await consentTo(api, ada, { query });
    const good = await location(path);
    const { id } = await connectionOf(ada, 'google_calendar');
    expect(good).equal(`${frontendUrl}/tools?connection_id=${id}`);
    const denied = await consentTo(api, ada, { query, isDenied: true });
    expect(await location(denied)).equal(`${frontendUrl}/tools?error=consent_denied`);
  });

  it('303: tells there what went wrong', async () => {
    const query = `?return_to=${encodeURIComponent('/tools')}`;
    const denied = await consentTo(api, ada, { query, isDenied: true });
    expect(await location(denied)).equal(`${frontendUrl}/tools?error=consent_denied`);
    const path = await consentTo(api, ada, { query });
    api.google.failNext(1, { status: 503 });
    expect(await location(path)).equal(`${frontendUrl}/tools?error=provider_unavailable`);
    const old = await consentTo(api, ada, { query });
    await outlive(ada);
    expect(await location(old)).equal(`${frontendUrl}/tools?error=consent_invalid`);
  });

  it('400: for a consent that was not given', async () => {
    expect(await refused(await consentTo(api, ada, { isDenied: true }))).equal('consent_denied');
  });

  it('400: for a callback that comes again, and for all but one of those that come at once', async () => {
    const path = await consentTo(api, ada);
    const statuses = await Promise.all([0, 1, 2].map(async () => (await api.anonymous.raw(path)).status));
    expect(statuses.toSorted()).deep.equal([200, 400, 400]);
    expect(await refused(path)).equal('consent_invalid');
  });

  it('400: for a state that nobody has made, is too old, or is of another provider', async () => {
    expect(await refused(`${google}/callback?state=unknown&code=x`)).equal('consent_invalid');
    const old = await consentTo(api, ada);
    await outlive(ada);
    expect(await refused(old)).equal('consent_invalid');
    const foreign = (await consentTo(api, ada)).replace('google_calendar', 'brave_search');
    expect(await refused(foreign)).equal('consent_invalid');
    expect(await refused(foreign.replace('brave_search', 'google_calendar'))).equal('consent_invalid');
  });

  it('400: for a code that the provider does not take, and without one', async () => {
    const path = await consentTo(api, ada);
    expect(await refused(path.replace(/code=[^&]+/, 'code=guessed'))).equal('consent_invalid');
    expect(await refused((await consentTo(api, ada)).replace(/code=[^&]+&?/, ''))).equal('consent_invalid');
    const misled = `${await consentTo(api, ada)}&iss=${encodeURIComponent('https://evil.example')}`;
    expect(await refused(misled)).equal('consent_invalid');
  });

  it('400: for one who is no admin any more, and takes the grant back', async () => {
    const bob = await api.signUp();
    const grace = await signUpColleague(api, bob, 'Grace', { is_admin: true });
    const path = await consentTo(api, grace);
    await bob.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: false }, 200);
    const before = api.google.liveGrants();
    expect(await refused(path)).equal('consent_invalid');
    expect(api.google.liveGrants()).equal(before);
    expect(await connectionOf(bob, 'google_calendar')).include({ status: 'not_connected' });
    const left = await consentTo(api, bob);
    await bob.delete('/entity/org', 204);
    expect(await refused(left)).equal('consent_invalid');
  });

  it('400: for one who is no admin any more, and leaves the connection that there is as it was', async () => {
    const bob = await api.signUp();
    const grace = await signUpColleague(api, bob, 'Grace', { is_admin: true });
    const account = { account: 'calendar@bank.example' };
    await api.anonymous.get(await consentTo(api, bob, account), 200);
    const path = await consentTo(api, grace, account);
    await bob.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: false }, 200);
    expect(await refused(path)).equal('consent_invalid');
    api.google.expireTokens();
    await callProviderTool(api.container, bob, 'calendar.list_events');
  });

  it('400: for a state whose verifier was sealed by a key that is gone', async () => {
    const path = await consentTo(api, ada);
    const other = anotherProcess(api, { encryptionKeys: [{ id: 'other', key: randomBytes(32) }] });
    const state = new URL(path, 'http://api').searchParams.get('state') ?? '';
    const answer = { provider: 'google_calendar', state, code: 'c', error: undefined, issuer: undefined };
    const finished = other.toolConnections.finishConsent({ ...answer, requestId: 'r' });
    expect(Object(await finished.catch((error: unknown) => error)).code).equal('consent_invalid');
    await other.close();
  });

  it('404: for a provider that there is none of', async () => {
    const { body } = await api.anonymous.get('/agents/tools/nobody/callback?state=s&code=c', 404);
    expect(body).include({ code: 'provider_not_found' });
  });

  it('422: without a state', async () => {
    await api.anonymous.get(`${google}/callback?code=c`, 422);
  });

  it('501: when the client is gone from the settings meanwhile, or the provider refuses it', async () => {
    const path = await consentTo(api, ada);
    const other = anotherProcess(api, {
      providers: { ...api.config.providers, googleCalendar: { baseUrl: null, client: null } },
    });
    const params = new URL(path, 'http://api').searchParams;
    const state = params.get('state') ?? '';
    const answer = { provider: 'google_calendar', state, code: 'c', error: undefined, issuer: undefined };
    const finished = other.toolConnections.finishConsent({ ...answer, requestId: 'r' });
    expect(Object(await finished.catch((error: unknown) => error)).code).equal('provider_not_configured');
    await other.close();
    const again = await consentTo(api, ada);
    api.google.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect((await api.anonymous.get(again, 501)).body).include({ code: 'provider_not_configured' });
  });

  it('502: when the provider refuses in another way', async () => {
    const path = await consentTo(api, ada);
    api.google.failNext(1, { status: 400, json: { error: 'odd' } });
    expect((await api.anonymous.get(path, 502)).body).include({ code: 'provider_rejected' });
  });

  it('503: while the provider is away', async () => {
    const path = await consentTo(api, ada);
    api.google.failNext(1, { status: 500, text: 'down' });
    expect((await api.anonymous.get(path, 503)).body).include({ code: 'provider_unavailable' });
  });

  it('200: after what nobody has come back from was forgotten', async () => {
    const path = await consentTo(api, ada);
    await beginConsent(ada);
    const states = () => api.container.db('oauth_states').where({ orgId: ada.orgId });
    await states()
      .whereRaw('true')
      .update({ expiresAt: api.container.db.raw("now() - interval '1 second'") });
    await api.container.consents.deleteExpired();
    expect(await states()).length(0);
    await api.anonymous.get(path, 400);
    await api.anonymous.get(await consentTo(api, ada), 200);
  });
});

import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { finishConsent } from '#test/support/finish-consent.ts';
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

  it('200: redirects to the provider with challenge, state and all scopes, and stores no secret unencrypted', async () => {
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

  it('200: requests the named scopes, given once or repeated', async () => {
    for (const [query, scopes] of [
      [`?scopes=${encodeURIComponent(readScope)}`, [readScope]],
      [`?scopes=${encodeURIComponent(writeScope)}&scopes=${encodeURIComponent(readScope)}`, [writeScope, readScope]],
    ] as const) {
      const url = new URL(await beginConsent(ada, query));
      expect(url.searchParams.get('scope')?.split(' ')).deep.equal(scopes);
    }
  });

  it('200: accepts a return_to path, and a URL of an allowed origin', async () => {
    for (const address of ['/settings?tab=tools', `${frontendUrl}/x`, 'https://other.example.com/y']) {
      await beginConsent(ada, `?return_to=${encodeURIComponent(address)}`);
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.get(`${google}/authorize`, 401);
  });

  it('403: for a member who is no admin', async () => {
    const grace = await aColleague(api, ada);
    expect((await grace.get(`${google}/authorize`, 403)).body).include({ code: 'forbidden' });
  });

  it('404: rejects an unknown provider', async () => {
    for (const provider of ['nobody', 'GOOGLE_CALENDAR', '__proto__', '%00', 'brave_search%2F']) {
      const { body } = await ada.get(`/agents/tools/${provider}/authorize`, 404);
      expect(body).include({ code: 'provider_not_found' });
    }
  });

  it('409: rejects a provider that is connected with an API key', async () => {
    expect((await ada.get('/agents/tools/brave_search/authorize', 409)).body).include({ code: 'wrong_auth_kind' });
  });

  it('422: rejects a return_to at another origin, and unknown scopes', async () => {
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

  it('501: reports that the deployment has no OAuth client for the provider', async () => {
    const eve = await (await stack()).signUp();
    expect((await eve.get(`${google}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
  });
});

/** Expires the organization's pending consents. */
async function expireConsents(api: ToolStack, { orgId }: Member): Promise<void> {
  const expiresAt = api.container.db.raw("now() - interval '1 second'");
  await api.container.db('oauth_states').where({ orgId }).update({ expiresAt });
}

describe('GET /agents/tools/{provider}/callback', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const refused = async (path: string) => Object((await api.anonymous.get(path, 400)).body).code;
  const pageOf = async (path: string) => {
    const response = await api.anonymous.raw(path, { redirect: 'manual' });
    expect(response.headers.get('referrer-policy')).equal('no-referrer');
    return new URL(response.headers.get('location') ?? '');
  };

  it('200: returns a code, as often as the browser asks, and does not connect', async () => {
    const path = await consentTo(api, ada);
    expect((await api.anonymous.raw(path, { method: 'HEAD' })).status).equal(200);
    for (const _ of [1, 2]) {
      const { body, headers } = await api.anonymous.get(path, 200);
      expect(headers.get('cache-control')).equal('no-store');
      for (const secret of api.google.secrets) expect(JSON.stringify(body)).not.contain(secret);
    }
    expect(await connectionOf(ada, 'google_calendar')).include({ status: 'not_connected' });
  });

  it('303: redirects to return_to with the code, or with the error, in the place of an earlier outcome', async () => {
    const query = `?return_to=${encodeURIComponent('/tools?tab=1&error=consent_denied&consent_code=7')}`;
    const page = await pageOf(await consentTo(api, ada, { query }));
    expect(page.href).match(/^https:\/\/app\.example\.com\/tools\?tab=1&consent_code=[^&]{40,}$/);
    const finish = { consent_code: page.searchParams.get('consent_code') };
    await ada.post(`${google}/finish`, finish, 200);
    const denied = await pageOf(await consentTo(api, ada, { query, isDenied: true }));
    expect(denied.href).equal(`${frontendUrl}/tools?tab=1&error=consent_denied`);
    const old = await consentTo(api, ada, { query });
    await expireConsents(api, ada);
    expect((await pageOf(old)).href).equal(`${frontendUrl}/tools?tab=1&error=consent_invalid`);
  });

  it('400: when the user denies consent', async () => {
    expect(await refused(await consentTo(api, ada, { isDenied: true }))).equal('consent_denied');
  });

  it('400: for a state that is unknown, expired or of another provider, and without a code', async () => {
    expect(await refused(`${google}/callback?state=unknown&code=x`)).equal('consent_invalid');
    const old = await consentTo(api, ada);
    await expireConsents(api, ada);
    expect(await refused(old)).equal('consent_invalid');
    const foreign = (await consentTo(api, ada)).replace('google_calendar', 'brave_search');
    expect(await refused(foreign)).equal('consent_invalid');
    expect(await refused((await consentTo(api, ada)).replace(/code=[^&]+&?/, ''))).equal('consent_invalid');
  });

  it('400: for a consent that the sweeper has deleted', async () => {
    const path = await consentTo(api, ada);
    await beginConsent(ada);
    await expireConsents(api, ada);
    await api.container.consents.deleteExpired();
    expect(await api.container.db('oauth_states').where({ orgId: ada.orgId })).length(0);
    expect(await refused(path)).equal('consent_invalid');
  });

  it('404: for an unknown provider', async () => {
    const { body } = await api.anonymous.get('/agents/tools/nobody/callback?state=s&code=c', 404);
    expect(body).include({ code: 'provider_not_found' });
  });

  it('422: without a state', async () => {
    await api.anonymous.get(`${google}/callback?code=c`, 422);
  });
});

describe('POST /agents/tools/{provider}/finish', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
  const refused = async (path: string, status: number) => Object((await finish(path, status)).body).code;
  /** Finishes in a process with other settings. @returns the code of its error */
  const refusedElsewhere = async (path: string, changes: Parameters<typeof anotherProcess>[1]) => {
    const { consent_code } = Object((await api.anonymous.get(path, 200)).body);
    const rights = { isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const actor = { ...rights, userId: ada.userId, orgId: ada.orgId, requestId: 'r' };
    const other = anotherProcess(api, changes);
    const answer = { provider: 'google_calendar', consentCode: consent_code };
    const failure = await other.toolConnections.finishConsent(actor, answer).catch((error: unknown) => error);
    await other.close();
    return Object(failure).code;
  };

  it('200: connects the organization, and says how', async () => {
    const { body, headers } = await finish(await consentTo(api, ada), 200);
    expect(headers.get('cache-control')).equal('no-store');
    const { connection } = Object(body);
    expect(connection).deep.include({ provider: 'google_calendar', connected: true, status: 'active' });
    expect(connection.actions.every(({ granted }: { granted: boolean }) => granted)).equal(true);
    for (const secret of api.google.secrets) expect(JSON.stringify(body)).not.contain(secret);
    const [entry] = await auditEntries(api, connection.id);
    expect(entry).deep.include({ actorId: ada.userId, action: 'tool.connected' });
    expect(entry?.detail).include({ provider: 'google_calendar' });
  });

  it('200: grants only the scopes that the user has left ticked', async () => {
    await finish(await consentTo(api, ada, { scopes: [writeScope] }), 200);
    const { actions, id } = await connectionOf(ada, 'google_calendar');
    expect(actions.map(({ granted }: { granted: boolean }) => granted)).deep.equal([false, true]);
    expect((await auditEntries(api, id)).at(-1)).include({ action: 'tool.reconnected' });
  });

  it('200: leaves one connection when two admins consent at once', async () => {
    const bob = await api.signUp();
    const grace = await aColleague(api, bob, 'Grace', { is_admin: true });
    const [one, two] = [await consentTo(api, bob), await consentTo(api, grace)];
    await Promise.all([finish(one, 200, bob), finish(two, 200, grace)]);
    expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
    expect(await connectionOf(bob, 'google_calendar')).include({ status: 'active' });
  });

  it('400: for the consent of another admin of the organization', async () => {
    const grace = await aColleague(api, ada, 'Grace', { is_admin: true });
    const { body } = await finish(await consentTo(api, ada), 400, grace);
    expect(body).include({ code: 'consent_invalid', detail: 'Another user began this consent. Begin one yourself.' });
  });

  it('400: for a used code', async () => {
    const path = await consentTo(api, ada);
    const { body } = await api.anonymous.get(path, 200);
    await ada.post(`${google}/finish`, body, 200);
    for (const again of [await ada.post(`${google}/finish`, body, 400), await api.anonymous.get(path, 400)]) {
      expect(again.body).include({ code: 'consent_invalid' });
    }
  });

  it('400: for a code that is made up, and one that the provider rejects', async () => {
    await ada.post(`${google}/finish`, { consent_code: 'made-up' }, 400);
    const path = await consentTo(api, ada);
    expect(await refused(path.replace(/code=[^&]+/, 'code=guessed'), 400)).equal('consent_invalid');
    const misled = `${await consentTo(api, ada)}&iss=${encodeURIComponent('https://evil.example')}`;
    expect(await refused(misled, 400)).equal('consent_invalid');
  });

  it('400: for a consent whose encryption key is gone', async () => {
    const encryptionKeys = [{ id: 'other', key: randomBytes(32) }];
    expect(await refusedElsewhere(await consentTo(api, ada), { encryptionKeys })).equal('consent_invalid');
  });

  it('401: without a token', async () => {
    await api.anonymous.post(`${google}/finish`, { consent_code: 'c' }, 401);
  });

  it('403: for a user who is no admin any more, and leaves the connection as it was', async () => {
    const bob = await api.signUp();
    const grace = await aColleague(api, bob, 'Grace', { is_admin: true });
    const account = { account: 'calendar@bank.example' };
    await finish(await consentTo(api, bob, account), 200, bob);
    const path = await consentTo(api, grace, account);
    await bob.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: false }, 200);
    const before = api.google.liveGrants();
    expect((await finish(path, 403, grace)).body).include({ code: 'forbidden' });
    expect(api.google.liveGrants()).equal(before);
    api.google.expireTokens();
    await callProviderTool(api.container, bob, 'calendar.list_events');
  });

  it('403: for a user who stops being an admin during the exchange, and revokes the grant', async () => {
    const bob = await api.signUp();
    const grace = await aColleague(api, bob, 'Grace', { is_admin: true });
    const { consent_code } = Object((await api.anonymous.get(await consentTo(api, grace), 200)).body);
    await bob.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: false }, 200);
    const before = api.google.liveGrants();
    // The rights of the request as they were when it began.
    const rights = { isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const actor = { ...rights, userId: grace.userId, orgId: grace.orgId, requestId: 'r' };
    const answer = { provider: 'google_calendar', consentCode: consent_code };
    const failure = await api.container.toolConnections.finishConsent(actor, answer).catch((error: unknown) => error);
    expect(Object(failure).code).equal('forbidden');
    expect(api.google.liveGrants()).equal(before);
  });

  it('404: for an unknown provider', async () => {
    await ada.post('/agents/tools/nobody/finish', { consent_code: 'c' }, 404);
  });

  it('409: rejects a provider that is connected with an API key', async () => {
    const { body } = await ada.post('/agents/tools/brave_search/finish', { consent_code: 'c' }, 409);
    expect(body).include({ code: 'wrong_auth_kind' });
  });

  it('422: without a code', async () => {
    await ada.post(`${google}/finish`, {}, 422);
  });

  it('501: when the client is gone from the settings meanwhile, or the provider refuses it', async () => {
    const providers = { ...api.config.providers, googleCalendar: { baseUrl: null, client: null } };
    expect(await refusedElsewhere(await consentTo(api, ada), { providers })).equal('provider_not_configured');
    const again = await consentTo(api, ada);
    api.google.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect(await refused(again, 501)).equal('provider_not_configured');
  });

  it('502: when the provider refuses in another way', async () => {
    const path = await consentTo(api, ada);
    api.google.failNext(1, { status: 400, json: { error: 'odd' } });
    expect(await refused(path, 502)).equal('provider_rejected');
  });

  it('503: during a provider outage', async () => {
    const path = await consentTo(api, ada);
    api.google.failNext(1, { status: 500, text: 'down' });
    expect(await refused(path, 503)).equal('provider_unavailable');
  });
});

import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
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
  readScope,
  type ToolStack,
  toolStack,
  writeScope,
} from '#test/support/tool-stack.ts';

const google = '/agents/tools/google_calendar';

// The rules that consents to tools share with consents to connections: test/api/connectors/consents.test.ts.
describe('the consent to a tool', () => {
  let api: ToolStack;
  let ada: Member;
  before(async () => {
    api = await toolStack();
    ada = await api.signUp();
  });

  const expire = async ({ orgId }: Member) => {
    const expiresAt = api.container.db.raw("now() - interval '1 second'");
    await api.container.db('oauth_states').where({ orgId }).update({ expiresAt });
  };
  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
  const demote = (admin: Member, { userId }: Member) =>
    admin.patch(`/entity/members/${userId}/org-admin`, { is_org_admin: false }, 200);
  /** An organization with two admins. */
  const twoAdmins = async () => {
    const bob = await api.signUp();
    return [bob, await aColleague(api, bob, 'Grace', { is_admin: true })] as const;
  };
  /** Finishes with the rights of an admin, as if they were read before. @returns the code of the error */
  const refusal = async ({ toolConnections }: Container, path: string, { userId, orgId } = ada) => {
    const { consent_code: consentCode } = Object((await api.anonymous.get(path, 200)).body);
    const rights = { isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const answer = { provider: 'google_calendar', consentCode };
    const finished = toolConnections.finishConsent({ ...rights, userId, orgId, requestId: 'r' }, answer);
    return Object(await finished.catch((error: unknown) => error)).code;
  };
  const refusedElsewhere = async (changes: Parameters<typeof anotherProcess>[1]) => {
    const other = anotherProcess(api, changes);
    const code = await refusal(other, await consentTo(api, ada));
    await other.close();
    return code;
  };

  it('200: begins at the provider with challenge, state and scopes, and stores no secret in plain text', async () => {
    const url = new URL(await beginConsent(ada));
    const of = (name: string) => url.searchParams.get(name) ?? '';
    expect(url.origin).equal(api.google.baseUrl);
    expect([of('response_type'), of('client_id')]).deep.equal(['code', api.google.client.id]);
    expect([of('redirect_uri'), of('code_challenge_method')]).deep.equal([`${api.baseUrl}${google}/callback`, 'S256']);
    expect(of('state')).match(/^[\w-]{43}$/);
    expect(url.href).not.contain(api.google.client.secret);
    const rows = await api.container.db('oauth_states').where({ orgId: ada.orgId });
    expect(JSON.stringify(rows)).not.contain(of('state'));
    expect(rows[0].codeVerifier).match(/^1:/);
    for (const [asked, scopes] of [
      ['', [readScope, writeScope]],
      [`?scopes=${encodeURIComponent(readScope)}`, [readScope]],
      [`?scopes=${encodeURIComponent(writeScope)}&scopes=${encodeURIComponent(readScope)}`, [writeScope, readScope]],
    ] as const) {
      expect(new URL(await beginConsent(ada, asked)).searchParams.get('scope')?.split(' ')).deep.equal(scopes);
    }
    for (const address of ['/settings?tab=tools', `${frontendUrl}/x`, 'https://other.example.com/y']) {
      await beginConsent(ada, `?return_to=${encodeURIComponent(address)}`);
    }
  });

  it('404, 409 and 501: exists only for a known provider of OAuth that the deployment has a client for', async () => {
    for (const provider of ['unknown', 'GOOGLE_CALENDAR', '__proto__', '%00', 'brave_search%2F']) {
      const { body } = await ada.get(`/agents/tools/${provider}/authorize`, 404);
      expect(body).include({ code: 'provider_not_found' });
    }
    await ada.post('/agents/tools/unknown/finish', { consent_code: 'c' }, 404);
    await api.anonymous.get('/agents/tools/unknown/callback?state=s&code=c', 404);
    for (const { body } of [
      await ada.get('/agents/tools/brave_search/authorize', 409),
      await ada.post('/agents/tools/brave_search/finish', { consent_code: 'c' }, 409),
    ]) {
      expect(body).include({ code: 'wrong_auth_kind' });
    }
    const eve = await (await stack()).signUp();
    expect((await eve.get(`${google}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
  });

  it('422: is not begun with a return_to at another origin or unknown scopes', async () => {
    for (const [query, field] of [
      ['return_to=https%3A%2F%2Fevil.example', 'return_to'],
      ['return_to=%2F%2Fevil.example', 'return_to'],
      ['return_to=%2F%5Cevil.example', 'return_to'],
      ['return_to=javascript%3Aalert(1)', 'return_to'],
      ['return_to=', 'return_to'],
      ['scopes=openid', 'scopes'],
      ['scopes=', 'scopes'],
    ]) {
      const { body } = await ada.get(`${google}/authorize?${query}`, 422);
      expect(Object(body).errors[0].path, query).equal(field);
    }
    await api.anonymous.get(`${google}/callback?code=c`, 422);
  });

  it('303: comes back to return_to with the code or the error, in the place of an earlier outcome', async () => {
    const query = `?return_to=${encodeURIComponent('/tools?tab=1&error=consent_denied&consent_code=7')}`;
    const pageOf = async (path: string) => {
      const response = await api.anonymous.raw(path, { redirect: 'manual' });
      expect(response.headers.get('referrer-policy')).equal('no-referrer');
      return new URL(response.headers.get('location') ?? '');
    };
    const page = await pageOf(await consentTo(api, ada, { query }));
    expect(page.href).match(/^https:\/\/app\.example\.com\/tools\?tab=1&consent_code=[^&]{40,}$/);
    await ada.post(`${google}/finish`, { consent_code: page.searchParams.get('consent_code') }, 200);
    const denied = await pageOf(await consentTo(api, ada, { query, isDenied: true }));
    expect(denied.href).equal(`${frontendUrl}/tools?tab=1&error=consent_denied`);
    const old = await consentTo(api, ada, { query });
    await expire(ada);
    expect((await pageOf(old)).href).equal(`${frontendUrl}/tools?tab=1&error=consent_invalid`);
  });

  it('400: is refused at the callback once the sweeper has deleted it, and at another provider', async () => {
    const path = await consentTo(api, ada);
    const { body } = await api.anonymous.get(path.replace('google_calendar', 'brave_search'), 400);
    expect(body).include({ code: 'consent_invalid' });
    await expire(ada);
    await api.container.consents.deleteExpired();
    expect(await api.container.db('oauth_states').where({ orgId: ada.orgId })).length(0);
    expect((await api.anonymous.get(path, 400)).body).include({ code: 'consent_invalid' });
  });

  it('200: connects the organization with the scopes that the user has left ticked', async () => {
    const bob = await api.signUp();
    const { body } = await finish(await consentTo(api, bob), 200, bob);
    const { connection } = Object(body);
    expect(connection).include({ provider: 'google_calendar', connected: true, status: 'active' });
    const granted = ({ actions }: { actions: { granted: boolean }[] }) => actions.map((action) => action.granted);
    expect(granted(connection)).deep.equal([true, true]);
    for (const secret of api.google.secrets) expect(JSON.stringify(body)).not.contain(secret);
    await finish(await consentTo(api, bob, { scopes: [writeScope] }), 200, bob);
    expect(granted(await connectionOf(bob, 'google_calendar'))).deep.equal([false, true]);
    const [made, again] = await auditEntries(api, connection.id);
    expect(made).deep.include({ actorId: bob.userId, action: 'tool.connected' });
    expect(made?.detail).include({ provider: 'google_calendar' });
    expect(again).include({ action: 'tool.reconnected' });
  });

  it('200: leaves one connection when two admins consent at once', async () => {
    const [bob, grace] = await twoAdmins();
    const [one, two] = [await consentTo(api, bob), await consentTo(api, grace)];
    await Promise.all([finish(one, 200, bob), finish(two, 200, grace)]);
    expect(await api.container.db('tool_connections').where({ orgId: bob.orgId })).length(1);
    expect(await connectionOf(bob, 'google_calendar')).include({ status: 'active' });
  });

  it('400: is finished neither by another admin, nor twice, nor with a forged code, issuer or key', async () => {
    const grace = await aColleague(api, ada, 'Grace', { is_admin: true });
    const { body } = await finish(await consentTo(api, ada), 400, grace);
    expect(body).include({ code: 'consent_invalid', detail: 'Another user began this consent. Begin one yourself.' });
    const path = await consentTo(api, ada);
    const code = (await api.anonymous.get(path, 200)).body;
    await ada.post(`${google}/finish`, code, 200);
    await ada.post(`${google}/finish`, code, 400);
    await api.anonymous.get(path, 400);
    await ada.post(`${google}/finish`, { consent_code: 'made-up' }, 400);
    await finish((await consentTo(api, ada)).replace(/code=[^&]+/, 'code=guessed'), 400);
    await finish(`${await consentTo(api, ada)}&iss=${encodeURIComponent('https://evil.example')}`, 400);
    const encryptionKeys = [{ id: 'other', key: randomBytes(32) }];
    expect(await refusedElsewhere({ encryptionKeys })).equal('consent_invalid');
  });

  it('403: is refused to a user who is no admin any more, at its end or during the exchange, and revoked', async () => {
    const [bob, grace] = await twoAdmins();
    const account = { account: 'calendar@bank.example' };
    await finish(await consentTo(api, bob, account), 200, bob);
    const path = await consentTo(api, grace, account);
    await demote(bob, grace);
    const before = api.google.liveGrants();
    expect((await finish(path, 403, grace)).body).include({ code: 'forbidden' });
    expect(api.google.liveGrants()).equal(before);
    api.google.expireTokens();
    await callProviderTool(api.container, bob, 'calendar.list_events');
    const [carl, dora] = await twoAdmins();
    const exchanged = await consentTo(api, dora);
    await demote(carl, dora);
    expect(await refusal(api.container, exchanged, dora)).equal('forbidden');
    expect(api.google.liveGrants()).equal(before);
  });

  it('501, 502 and 503: fails when the provider or the settings refuse the exchange', async () => {
    const providers = { ...api.config.providers, googleCalendar: { baseUrl: null, client: null } };
    expect(await refusedElsewhere({ providers })).equal('provider_not_configured');
    for (const [reply, status, code] of [
      [{ status: 401, json: { error: 'invalid_client' } }, 501, 'provider_not_configured'],
      [{ status: 400, json: { error: 'odd' } }, 502, 'provider_rejected'],
      [{ status: 500, text: 'down' }, 503, 'provider_unavailable'],
    ] as const) {
      const path = await consentTo(api, ada);
      api.google.failNext(1, reply);
      expect((await finish(path, status)).body).include({ code });
    }
  });
});

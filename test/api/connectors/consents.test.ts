import { expect } from 'chai';
import { connectorProviderLabels, oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import { createsConnectionOnConsent } from '#test/support/connector-provider-cases.ts';
import {
  beginConsent,
  type ConnectorStack,
  connect,
  connectorStack,
  consentTo,
  frontendUrl,
} from '#test/support/connector-stack.ts';
import { finishConsent } from '#test/support/finish-consent.ts';
import { stack } from '#test/support/stack.ts';

const drive = '/connectors/oauth/acme_drive';

describe('the consent to a connection', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    // Each consent at a fake provider comes from a new account, so that it counts against the tier's limit.
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  const ofAda = () => ({ api, member: ada, provider: 'acme_drive' }) as const;
  const expire = () => {
    const expiresAt = api.container.db.raw("now() - interval '1 second'");
    return api.container.db('oauth_states').where({ orgId: ada.orgId }).update({ expiresAt });
  };
  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
  const finishFails = async (path: string, status: number) => Object((await finish(path, status)).body).code;
  const callbackFails = async (path: string) => Object((await api.anonymous.get(path, 400)).body).code;
  const codeOf = async (path: string) => Object((await api.anonymous.get(path, 200)).body).consent_code;
  const locationOf = async (path: string) => {
    const response = await api.anonymous.raw(path, { redirect: 'manual' });
    expect(await response.text()).equal('');
    expect(response.status).equal(303);
    return response.headers.get('location') ?? '';
  };

  it('200: is offered for the providers that the deployment has an OAuth client for', async () => {
    const providers = oauthConnectorProviders.map((provider) => {
      return { provider, label: connectorProviderLabels[provider] };
    });
    expect((await ada.get('/connectors/oauth/providers', 200)).body).deep.equal({ providers });
    const eve = await (await stack()).signUp();
    expect((await eve.get('/connectors/oauth/providers', 200)).body).deep.equal({ providers: [] });
    expect((await eve.get(`${drive}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
  });

  it('404 and 409: exists only for a known provider of OAuth', async () => {
    for (const provider of ['unknown', 'ACME_DRIVE', '__proto__', '%00', 'google_calendar']) {
      const { body } = await ada.get(`/connectors/oauth/${provider}/authorize`, 404);
      expect(body).include({ code: 'provider_not_found' });
    }
    await api.anonymous.get('/connectors/oauth/unknown/callback?state=s&code=c', 404);
    await ada.post('/connectors/oauth/unknown/finish', { consent_code: 'c' }, 404);
    for (const { body } of [
      await ada.get('/connectors/oauth/acme_s3/authorize', 409),
      await ada.post('/connectors/oauth/acme_s3/finish', { consent_code: 'c' }, 409),
    ]) {
      expect(body).include({ code: 'wrong_auth_kind' });
    }
  });

  it('200: begins with a PKCE challenge and a state, of which it stores neither in plain text', async () => {
    const url = new URL(await beginConsent(ada, 'acme_drive', { login_hint: 'ada@example.com' }));
    const of = (name: string) => url.searchParams.get(name) ?? '';
    expect(url.origin).equal(api.fakes.acme_drive.baseUrl);
    expect([of('redirect_uri'), of('response_type')]).deep.equal([`${api.baseUrl}${drive}/callback`, 'code']);
    expect([of('code_challenge_method'), of('login_hint')]).deep.equal(['S256', 'ada@example.com']);
    expect(of('state')).match(/^[\w-]{43}$/);
    expect(url.href).not.contain(api.fakes.acme_drive.client.secret);
    const rows = await api.container.db('oauth_states').where({ orgId: ada.orgId });
    expect(JSON.stringify(rows)).not.contain(of('state'));
    expect(rows.at(-1).codeVerifier).match(/^1:/);
    const elsewhere = new URL(await beginConsent(ada, 'acme_dropbox', { login_hint: 'ada@example.com' }));
    expect(elsewhere.searchParams.get('login_hint'), 'which the provider does not support').equal(null);
    for (const return_to of ['/files', `${frontendUrl}/x`, 'https://other.example.com/y']) {
      await beginConsent(ada, 'acme_drive', { return_to });
    }
  });

  it('422: is not begun with a return_to at another origin, for SharePoint without a site, or without a state', async () => {
    for (const [path, field] of [
      ['acme_drive/authorize?return_to=https%3A%2F%2Fevil.example', 'return_to'],
      ['acme_drive/authorize?return_to=%2F%2Fevil.example', 'return_to'],
      ['acme_drive/authorize?return_to=javascript%3Aalert(1)', 'return_to'],
      ['acme_drive/authorize?return_to=', 'return_to'],
      ['acme_sharepoint/authorize', 'site_id'],
      ['acme_sharepoint/authorize?site_id=', 'site_id'],
    ]) {
      const { body } = await ada.get(`/connectors/oauth/${path}`, 422);
      expect(Object(body).errors[0].path, path).equal(field);
    }
    await api.anonymous.get(`${drive}/callback?code=c`, 422);
  });

  it('200: returns a code at the callback, on every request, and neither connects nor calls the provider', async () => {
    const path = await consentTo(api, ada, 'acme_drive');
    const { liveGrants, calls, secrets } = api.fakes.acme_drive;
    const before = [liveGrants(), calls.length];
    expect((await api.anonymous.raw(path, { method: 'HEAD' })).status).equal(200);
    for (const _ of [1, 2]) {
      const { body, headers } = await api.anonymous.get(path, 200);
      expect(headers.get('cache-control')).equal('no-store');
      for (const secret of secrets) expect(JSON.stringify(body)).not.contain(secret);
    }
    expect([liveGrants(), calls.length]).deep.equal(before);
    expect((await ada.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
  });

  it('303: comes back to return_to with the code or with the error', async () => {
    const begin = (choice: object = {}) =>
      consentTo(api, ada, 'acme_dropbox', { query: { return_to: '/files?tab=1' }, ...choice });
    const page = new URL(await locationOf(await begin()));
    expect(page.href).match(/^https:\/\/app\.example\.com\/files\?tab=1&consent_code=/);
    const consent_code = page.searchParams.get('consent_code');
    await ada.post('/connectors/oauth/acme_dropbox/finish', { consent_code }, 200);
    const denied = await locationOf(await begin({ isDenied: true }));
    expect(denied).equal(`${frontendUrl}/files?tab=1&error=consent_denied`);
    const old = await begin();
    await expire();
    expect(await locationOf(old)).equal(`${frontendUrl}/files?tab=1&error=consent_invalid`);
  });

  it('400: is refused when the user denies it, without a code, and for the state of another consent', async () => {
    const denied = await consentTo(api, ada, 'acme_drive', { isDenied: true });
    expect(await callbackFails(denied)).equal('consent_denied');
    expect(await callbackFails(`${denied}&code=c`)).equal('consent_denied');
    const path = await consentTo(api, ada, 'acme_drive');
    for (const wrong of [
      `${drive}/callback?state=unknown&code=x`,
      path.replace(/code=[^&]+&?/, ''),
      (await consentTo(api, ada, 'acme_onedrive')).replace('acme_onedrive', 'acme_drive'),
    ]) {
      expect(await callbackFails(wrong)).equal('consent_invalid');
    }
    await expire();
    expect(await callbackFails(path), 'expired').equal('consent_invalid');
    const ofTool = await consentTo(api, ada, 'acme_drive');
    await api.container.db('oauth_states').where({ orgId: ada.orgId }).update({ purpose: 'tools' });
    expect(await callbackFails(ofTool), 'made for a tool').equal('consent_invalid');
  });

  it('200: creates the connection', () => createsConnectionOnConsent(ofAda()));

  it('200: reactivates the connection when the same account consents again', async () => {
    const bob = await api.signUp();
    const account = { account: 'bob@example.com' };
    const { id } = await connect(api, bob, 'acme_drive', account);
    await bob.patch(`/connectors/connections/${id}`, { display_name: 'Mine' }, 200);
    await api.container.db('connections').where({ id }).update({ status: 'needs_reauth', lastError: 'gone' });
    const again = await connect(api, bob, 'acme_drive', account);
    expect(again).include({ id, display_name: 'Mine', status: 'active', last_error: null });
    expect(Object((await bob.get('/connectors/connections', 200)).body).items).length(1);
    expect((await auditEntries(api, id)).at(-1)).include({ action: 'connection.reconnected' });
  });

  it('200: creates a connection for each account and each user, but one for two concurrent consents', async () => {
    const bob = await api.signUp();
    const connections = [
      await connect(api, bob, 'acme_drive', { account: 'one@example.com' }),
      await connect(api, bob, 'acme_drive', { account: 'two@example.com' }),
      await connect(api, ada, 'acme_drive', { account: 'one@example.com' }),
    ];
    expect(new Set(connections.map(({ id }) => id)).size).equal(3);
    const begin = () => consentTo(api, bob, 'acme_onedrive', { account: 'twice@example.com' });
    const [one, two] = [await begin(), await begin()];
    await Promise.all([finish(one, 200, bob), finish(two, 200, bob)]);
    expect(Object((await bob.get('/connectors/connections', 200)).body).items).length(3);
  });

  it('400: is finished once, also by concurrent requests, and not with a wrong, foreign or expired code', async () => {
    const body = JSON.stringify({ consent_code: await codeOf(await consentTo(api, ada, 'acme_drive')) });
    const headers = { 'content-type': 'application/json' };
    const send = async () => (await ada.raw(`${drive}/finish`, { method: 'POST', headers, body })).status;
    expect((await Promise.all([send(), send(), send()])).toSorted()).deep.equal([200, 400, 400]);
    const old = await codeOf(await consentTo(api, ada, 'acme_drive'));
    const foreign = await codeOf(await consentTo(api, ada, 'acme_onedrive'));
    await expire();
    for (const consent_code of ['made-up', foreign, old, JSON.parse(body).consent_code]) {
      const refusal = await ada.post(`${drive}/finish`, { consent_code }, 400);
      expect(refusal.body).include({ code: 'consent_invalid' });
    }
    const guessed = (await consentTo(api, ada, 'acme_drive')).replace(/code=[^&]+/, 'code=guessed');
    expect(await finishFails(guessed, 400)).equal('consent_invalid');
  });

  it('401: is not finished once the organization was deleted', async () => {
    const bob = await api.signUp();
    const path = await consentTo(api, bob, 'acme_drive');
    await bob.delete('/entity/org', 204);
    const before = api.fakes.acme_drive.liveGrants();
    await finish(path, 401, bob);
    expect(api.fakes.acme_drive.liveGrants()).equal(before);
  });

  it('409: is revoked over the limit of the tier', async () => {
    const bob = await api.signUp();
    await Promise.all(Array.from({ length: 5 }, () => connect(api, bob, 'acme_drive')));
    const path = await consentTo(api, bob, 'acme_drive');
    const before = api.fakes.acme_drive.liveGrants();
    expect((await finish(path, 409, bob)).body).include({ code: 'connection_limit_reached' });
    expect(api.fakes.acme_drive.liveGrants()).equal(before);
  });

  it('422: fails for a site that the account cannot read, and for missing scopes', async () => {
    const site = await consentTo(api, ada, 'acme_sharepoint', { query: { site_id: 'no,such,site' } });
    const bare = await consentTo(api, ada, 'acme_drive', { scopes: [] });
    for (const path of [site, bare]) expect(await finishFails(path, 422)).equal('connection_check_failed');
  });

  it('501, 502 and 503: fails when the provider refuses the exchange or is away', async () => {
    for (const [reply, status, code] of [
      [{ status: 401, json: { error: 'invalid_client' } }, 501, 'provider_not_configured'],
      [{ status: 400, json: { error: 'odd' } }, 502, 'provider_rejected'],
      [{ status: 500, text: 'down' }, 503, 'provider_unavailable'],
    ] as const) {
      const path = await consentTo(api, ada, 'acme_drive');
      api.fakes.acme_drive.failNext(1, reply);
      expect(await finishFails(path, status)).equal(code);
    }
  });
});

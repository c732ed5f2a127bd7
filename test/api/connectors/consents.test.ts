import { expect } from 'chai';
import { connectorProviderLabels, oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import type { Member } from '#test/support/client.ts';
import {
  createsConnectionOnConsent,
  encryptsVerifierAndHashesState,
  reactivatesConnectionOnRepeatedConsent,
} from '#test/support/connector-provider-cases.ts';
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

describe('GET /connectors/oauth/providers', () => {
  it('200: lists the providers that have an OAuth client, to every user', async () => {
    const api = await connectorStack();
    const ada = await api.signUp();
    const { body } = await ada.get('/connectors/oauth/providers', 200);
    const providers = oauthConnectorProviders.map((provider) => ({
      provider,
      label: connectorProviderLabels[provider],
    }));
    expect(body).deep.equal({ providers });
  });

  it('200: lists no provider without OAuth clients', async () => {
    const eve = await (await stack()).signUp();
    expect((await eve.get('/connectors/oauth/providers', 200)).body).deep.equal({ providers: [] });
  });

  it('401: without a token', async () => {
    await (await connectorStack()).anonymous.get('/connectors/oauth/providers', 401);
  });
});

describe('GET /connectors/oauth/{provider}/authorize', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
  });

  it('200: returns the consent page with a PKCE challenge and a state, and stores neither in plain text', async () =>
    encryptsVerifierAndHashesState({ api, member: await api.signUp(), provider: 'acme_drive' }));

  it('200: passes login_hint on where the provider supports it', async () => {
    const hintAt = async (provider: 'acme_drive' | 'acme_dropbox') => {
      const url = new URL(await beginConsent(ada, provider, { login_hint: 'ada@example.com' }));
      return url.searchParams.get('login_hint');
    };
    expect([await hintAt('acme_drive'), await hintAt('acme_dropbox')]).deep.equal(['ada@example.com', null]);
  });

  it('200: accepts a path of the frontend and a URL of an allowed origin as return_to', async () => {
    for (const return_to of ['/files', `${frontendUrl}/x`, 'https://other.example.com/y']) {
      await beginConsent(ada, 'acme_drive', { return_to });
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.get(`${drive}/authorize`, 401);
  });

  it('404: for an unknown provider', async () => {
    for (const provider of ['nobody', 'ACME_DRIVE', '__proto__', '%00', 'google_calendar']) {
      const { body } = await ada.get(`/connectors/oauth/${provider}/authorize`, 404);
      expect(body).include({ code: 'provider_not_found' });
    }
  });

  it('409: for the provider that uses access keys', async () => {
    expect((await ada.get('/connectors/oauth/acme_s3/authorize', 409)).body).include({ code: 'wrong_auth_kind' });
  });

  it('422: for a return_to at another origin, SharePoint without a site, and unknown parameters', async () => {
    for (const [path, field] of [
      ['acme_drive/authorize?return_to=https%3A%2F%2Fevil.example', 'return_to'],
      ['acme_drive/authorize?return_to=%2F%2Fevil.example', 'return_to'],
      ['acme_drive/authorize?return_to=javascript%3Aalert(1)', 'return_to'],
      ['acme_drive/authorize?return_to=', 'return_to'],
      ['acme_sharepoint/authorize', 'site_id'],
      ['acme_sharepoint/authorize?site_id=', 'site_id'],
      ['acme_drive/authorize?scope=openid', 'scope'],
    ]) {
      const { body } = await ada.get(`/connectors/oauth/${path}`, 422);
      expect(Object(body).errors[0].path, path).equal(field);
    }
  });

  it('501: when the deployment has no client at the provider', async () => {
    const eve = await (await stack()).signUp();
    expect((await eve.get(`${drive}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
  });
});

/** Expires the user's pending consents. */
async function expireConsents(api: ConnectorStack, { orgId }: Member): Promise<void> {
  const expiresAt = api.container.db.raw("now() - interval '1 second'");
  await api.container.db('oauth_states').where({ orgId }).update({ expiresAt });
}

describe('GET /connectors/oauth/{provider}/callback', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
  });

  const refused = async (path: string) => Object((await api.anonymous.get(path, 400)).body).code;
  const location = async (path: string) =>
    (await api.anonymous.raw(path, { redirect: 'manual' })).headers.get('location') ?? '';

  it('200: returns a code, on every request, and neither connects nor calls the provider', async () => {
    const path = await consentTo(api, ada, 'acme_drive');
    const [grants, calls] = [api.fakes.acme_drive.liveGrants(), api.fakes.acme_drive.calls.length];
    expect((await api.anonymous.raw(path, { method: 'HEAD' })).status).equal(200);
    for (const _ of [1, 2]) {
      const { body, headers } = await api.anonymous.get(path, 200);
      expect(headers.get('cache-control')).equal('no-store');
      for (const secret of api.fakes.acme_drive.secrets) expect(JSON.stringify(body)).not.contain(secret);
    }
    expect([api.fakes.acme_drive.liveGrants(), api.fakes.acme_drive.calls.length]).deep.equal([grants, calls]);
    expect((await ada.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
  });

  it('303: redirects to return_to with the code', async () => {
    const query = { return_to: '/files?tab=1' };
    const path = await consentTo(api, ada, 'acme_dropbox', { query, account: 'd' });
    const response = await api.anonymous.raw(path, { redirect: 'manual' });
    expect(response.status).equal(303);
    const page = new URL(response.headers.get('location') ?? '');
    expect(page.href).match(/^https:\/\/app\.example\.com\/files\?tab=1&consent_code=/);
    expect(await response.text()).equal('');
    const finish = { consent_code: page.searchParams.get('consent_code') };
    await ada.post('/connectors/oauth/acme_dropbox/finish', finish, 200);
  });

  it('303: redirects to return_to with the error', async () => {
    const query = { return_to: '/files' };
    const denied = await consentTo(api, ada, 'acme_onedrive', { query, isDenied: true });
    expect(await location(denied)).equal(`${frontendUrl}/files?error=consent_denied`);
    const old = await consentTo(api, ada, 'acme_onedrive', { query });
    await expireConsents(api, ada);
    expect(await location(old)).equal(`${frontendUrl}/files?error=consent_invalid`);
  });

  it('400: when the user denies consent', async () => {
    const denied = await consentTo(api, ada, 'acme_drive', { isDenied: true });
    expect(await refused(denied)).equal('consent_denied');
    expect(await refused(`${denied}&code=c`)).equal('consent_denied');
  });

  it('400: for a state that is unknown, expired, of another provider, or made for a tool', async () => {
    expect(await refused(`${drive}/callback?state=unknown&code=x`)).equal('consent_invalid');
    const old = await consentTo(api, ada, 'acme_drive');
    await expireConsents(api, ada);
    expect(await refused(old)).equal('consent_invalid');
    const foreign = (await consentTo(api, ada, 'acme_onedrive')).replace('acme_onedrive', 'acme_drive');
    expect(await refused(foreign)).equal('consent_invalid');
    const path = await consentTo(api, ada, 'acme_drive');
    await api.container.db('oauth_states').where({ orgId: ada.orgId }).update({ purpose: 'tools' });
    expect(await refused(path)).equal('consent_invalid');
  });

  it('400: without a code', async () => {
    const without = (await consentTo(api, ada, 'acme_drive')).replace(/code=[^&]+&?/, '');
    expect(await refused(without)).equal('consent_invalid');
  });

  it('404: for an unknown provider', async () => {
    const { body } = await api.anonymous.get('/connectors/oauth/nobody/callback?state=s&code=c', 404);
    expect(body).include({ code: 'provider_not_found' });
  });

  it('422: without a state', async () => {
    await api.anonymous.get(`${drive}/callback?code=c`, 422);
  });
});

describe('POST /connectors/oauth/{provider}/finish', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    // Each consent at a fake provider comes from a new account, so that it counts against the tier's limit.
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);
  const refused = async (path: string, status: number) => Object((await finish(path, status)).body).code;
  const connectionsOf = (member: Member) => api.container.db('connections').where({ userId: member.userId });

  it('200: creates the connection', () => createsConnectionOnConsent({ api, member: ada, provider: 'acme_drive' }));

  it('200: reactivates the connection when the same account consents again', async () =>
    reactivatesConnectionOnRepeatedConsent({ api, member: await api.signUp(), provider: 'acme_drive' }));

  it('200: creates separate connections for different accounts and different users', async () => {
    const bob = await api.signUp();
    const ids = [
      await connect(api, bob, 'acme_drive', { account: 'one@example.com' }),
      await connect(api, bob, 'acme_drive', { account: 'two@example.com' }),
      await connect(api, ada, 'acme_drive', { account: 'one@example.com' }),
    ].map(({ id }) => id);
    expect(new Set(ids).size).equal(3);
  });

  it('200: creates one connection for two concurrent consents of one account', async () => {
    const bob = await api.signUp();
    const account = { account: 'twice@example.com' };
    const [one, two] = [
      await consentTo(api, bob, 'acme_onedrive', account),
      await consentTo(api, bob, 'acme_onedrive', account),
    ];
    await Promise.all([finish(one, 200, bob), finish(two, 200, bob)]);
    expect(await connectionsOf(bob)).length(1);
  });

  it('400: for a used code, and for all but one of several concurrent requests', async () => {
    const { body } = await api.anonymous.get(await consentTo(api, ada, 'acme_drive'), 200);
    const send = () => ada.raw(`${drive}/finish`, { method: 'POST', headers, body: JSON.stringify(body) });
    const headers = { 'content-type': 'application/json' };
    const statuses = await Promise.all([send(), send(), send()].map(async (answer) => (await answer).status));
    expect(statuses.toSorted()).deep.equal([200, 400, 400]);
    expect((await ada.post(`${drive}/finish`, body, 400)).body).include({ code: 'consent_invalid' });
  });

  it('400: for a code that is made up, of another provider, or expired', async () => {
    const code = async (path: string) => Object((await api.anonymous.get(path, 200)).body).consent_code;
    const old = await code(await consentTo(api, ada, 'acme_drive'));
    const foreign = await code(await consentTo(api, ada, 'acme_onedrive'));
    await expireConsents(api, ada);
    for (const consent_code of ['made-up', foreign, old]) {
      const { body } = await ada.post(`${drive}/finish`, { consent_code }, 400);
      expect(body).include({ code: 'consent_invalid' });
    }
  });

  it('400: for a code that the provider rejects', async () => {
    const path = await consentTo(api, ada, 'acme_drive');
    expect(await refused(path.replace(/code=[^&]+/, 'code=guessed'), 400)).equal('consent_invalid');
  });

  it('401: without a token, and when the organization was deleted', async () => {
    const bob = await api.signUp();
    const path = await consentTo(api, bob, 'acme_drive');
    await api.anonymous.post(`${drive}/finish`, { consent_code: 'c' }, 401);
    await bob.delete('/entity/org', 204);
    const before = api.fakes.acme_drive.liveGrants();
    await finish(path, 401, bob);
    expect(api.fakes.acme_drive.liveGrants()).equal(before);
  });

  it('404: for an unknown provider', async () => {
    const { body } = await ada.post('/connectors/oauth/nobody/finish', { consent_code: 'c' }, 404);
    expect(body).include({ code: 'provider_not_found' });
  });

  it('409: over the limit of the tier, and revokes the grant', async () => {
    const bob = await api.signUp();
    const rows = Array.from({ length: 5 }, () => connect(api, bob, 'acme_drive'));
    await Promise.all(rows);
    const path = await consentTo(api, bob, 'acme_drive');
    const before = api.fakes.acme_drive.liveGrants();
    expect((await finish(path, 409, bob)).body).include({ code: 'connection_limit_reached' });
    expect(api.fakes.acme_drive.liveGrants()).equal(before);
  });

  it('409: for the provider that uses access keys', async () => {
    const { body } = await ada.post('/connectors/oauth/acme_s3/finish', { consent_code: 'c' }, 409);
    expect(body).include({ code: 'wrong_auth_kind' });
  });

  it('422: for wrong fields, a site that the account cannot read, and missing scopes', async () => {
    for (const fields of [{}, { consent_code: '' }, { consent_code: 'c', state: 's' }]) {
      await ada.post(`${drive}/finish`, fields, 422);
    }
    const site = await consentTo(api, ada, 'acme_sharepoint', { query: { site_id: 'no,such,site' } });
    expect(await refused(site, 422)).equal('connection_check_failed');
    const bare = await consentTo(api, ada, 'acme_drive', { scopes: [] });
    expect(await refused(bare, 422)).equal('connection_check_failed');
  });

  const refusedAfter = async (reply: Parameters<(typeof api.fakes.acme_drive)['failNext']>[1], status: number) => {
    const path = await consentTo(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, reply);
    return refused(path, status);
  };

  it('501: when the provider rejects the OAuth client', async () => {
    const reply = { status: 401, json: { error: 'invalid_client' } };
    expect(await refusedAfter(reply, 501)).equal('provider_not_configured');
  });

  it('502: when the provider rejects the code exchange for another reason', async () => {
    expect(await refusedAfter({ status: 400, json: { error: 'odd' } }, 502)).equal('provider_rejected');
  });

  it('503: during a provider outage', async () => {
    expect(await refusedAfter({ status: 500, text: 'down' }, 503)).equal('provider_unavailable');
  });
});

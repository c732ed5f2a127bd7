import { expect } from 'chai';
import { connectorProviderLabels, oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, connectorStack, consentTo, frontendUrl } from '#test/support/connector-stack.ts';
import { beginConsent, type Consent, consentAt, finishConsent } from '#test/support/consents.ts';
import type { FakeProvider } from '#test/support/fake-oauth.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { toolStack } from '#test/support/tool-stack.ts';

type Opened = { api: Stack; fake: FakeProvider };
type Kind = { base: string; provider: string; another: string; withKeys: string; open(): Promise<Opened> };

const kinds: Record<string, Kind> = {
  'to a connection': {
    base: '/connectors/oauth',
    provider: 'acme_drive',
    another: 'acme_dropbox',
    withKeys: 'acme_s3',
    open: async () => {
      const api = await connectorStack();
      return { api, fake: api.fakes.acme_drive };
    },
  },
  'to a tool': {
    base: '/agents/tools',
    provider: 'google_calendar',
    another: 'brave_search',
    withKeys: 'brave_search',
    open: async () => {
      const api = await toolStack();
      return { api, fake: api.google };
    },
  },
};

for (const [kind, { base, provider, another, withKeys, open }] of Object.entries(kinds)) {
  describe(`an OAuth consent ${kind}`, () => {
    const own = `${base}/${provider}`;
    let { api, fake }: Opened = {} as Opened;
    let ada: Member;
    before(async () => {
      ({ api, fake } = await open());
      ada = await api.signUp();
    });

    /** Consents at the provider. @returns path and query of the callback */
    const consent = (options: Consent = {}) => consentAt(fake, ada, own, options);
    const expire = () => {
      const expiresAt = api.container.db.raw("now() - interval '1 second'");
      return api.container.db('oauth_states').where({ orgId: ada.orgId }).update({ expiresAt });
    };
    const callbackFails = async (path: string) => Object((await api.anonymous.get(path, 400)).body).code;
    const pageOf = async (path: string) => {
      const response = await api.anonymous.raw(path, { redirect: 'manual' });
      expect([response.status, await response.text()]).deep.equal([303, '']);
      expect(response.headers.get('referrer-policy')).equal('no-referrer');
      return new URL(response.headers.get('location') ?? '');
    };

    it('needs a known provider (404) that uses OAuth (409) and has a configured client (501)', async () => {
      for (const unknown of ['unknown', provider.toUpperCase(), '__proto__', '%00', `${withKeys}%2F`]) {
        const { body } = await ada.get(`${base}/${unknown}/authorize`, 404);
        expect(body, unknown).include({ code: 'provider_not_found' });
      }
      await api.anonymous.get(`${base}/unknown/callback?state=s&code=c`, 404);
      await ada.post(`${base}/unknown/finish`, { consent_code: 'c' }, 404);
      for (const { body } of [
        await ada.get(`${base}/${withKeys}/authorize`, 409),
        await ada.post(`${base}/${withKeys}/finish`, { consent_code: 'c' }, 409),
      ]) {
        expect(body).include({ code: 'wrong_auth_kind' });
      }
      const eve = await (await stack()).signUp();
      expect((await eve.get(`${own}/authorize`, 501)).body).include({ code: 'provider_not_configured' });
    });

    it('begins with a PKCE challenge and a state, neither of which is stored in plain text', async () => {
      const url = new URL(await beginConsent(ada, own));
      const of = (name: string) => url.searchParams.get(name) ?? '';
      expect([url.origin, of('response_type')]).deep.equal([fake.baseUrl, 'code']);
      expect([of('redirect_uri'), of('client_id')]).deep.equal([`${api.baseUrl}${own}/callback`, fake.client.id]);
      expect(of('code_challenge_method')).equal('S256');
      expect(of('state')).match(/^[\w-]{43}$/);
      expect(url.href).not.contain(fake.client.secret);
      const rows = await api.container.db('oauth_states').where({ orgId: ada.orgId });
      expect(JSON.stringify(rows)).not.contain(of('state'));
      expect(rows[0].codeVerifier).match(/^1:/);
    });

    it('can return to the frontend and to allowed origins; any other address is refused (422)', async () => {
      for (const return_to of ['/files', `${frontendUrl}/x`, 'https://other.example.com/y']) {
        await beginConsent(ada, own, { return_to });
      }
      for (const wrong of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)', '']) {
        const { body } = await ada.get(`${own}/authorize?${new URLSearchParams({ return_to: wrong })}`, 422);
        expect(Object(body).errors[0].path, wrong).equal('return_to');
      }
      await api.anonymous.get(`${own}/callback?code=c`, 422);
    });

    it('answers each call of its callback with a code, but connects nothing and does not call the provider', async () => {
      const path = await consent();
      const before = [fake.liveGrants(), fake.calls.length];
      expect((await api.anonymous.raw(path, { method: 'HEAD' })).status).equal(200);
      for (const _ of [1, 2]) {
        const { body, headers } = await api.anonymous.get(path, 200);
        expect(headers.get('cache-control')).equal('no-store');
        for (const secret of fake.secrets) expect(JSON.stringify(body)).not.contain(secret);
      }
      expect([fake.liveGrants(), fake.calls.length]).deep.equal(before);
    });

    it('replaces the code or error that an earlier consent left in the return_to URL with its own', async () => {
      const query = { return_to: '/files?tab=1&error=consent_denied&consent_code=7' };
      const page = await pageOf(await consent({ query }));
      expect(page.href).match(/^https:\/\/app\.example\.com\/files\?tab=1&consent_code=[^&]{40,}$/);
      await ada.post(`${own}/finish`, { consent_code: page.searchParams.get('consent_code') }, 200);
      const denied = await pageOf(await consent({ query, isDenied: true }));
      expect(denied.href).equal(`${frontendUrl}/files?tab=1&error=consent_denied`);
      const old = await consent({ query });
      await expire();
      expect((await pageOf(old)).href).equal(`${frontendUrl}/files?tab=1&error=consent_invalid`);
    });

    it('fails at the callback (400) when it is denied, lacks a code or has a state of another consent', async () => {
      const denied = await consent({ isDenied: true });
      for (const path of [denied, `${denied}&code=c`]) expect(await callbackFails(path)).equal('consent_denied');
      const path = await consent();
      const elsewhere = path.replace(provider, another);
      for (const wrong of [`${own}/callback?state=unknown&code=x`, path.replace(/code=[^&]+&?/, ''), elsewhere]) {
        expect(await callbackFails(wrong)).equal('consent_invalid');
      }
      await expire();
      expect(await callbackFails(path), 'expired').equal('consent_invalid');
      const states = api.container.db('oauth_states').where({ orgId: ada.orgId });
      const foreign = await consent();
      await states.clone().update({ purpose: kind === 'to a tool' ? 'connectors' : 'tools' });
      expect(await callbackFails(foreign), 'of the other kind').equal('consent_invalid');
      await expire();
      await api.container.consents.deleteExpired();
      expect(await states).length(0);
      expect(await callbackFails(path), 'deleted by the sweeper').equal('consent_invalid');
    });

    it('can be finished once, also by concurrent requests, but not with a forged code or issuer (400)', async () => {
      const path = await consent();
      const body = JSON.stringify((await api.anonymous.get(path, 200)).body);
      const headers = { 'content-type': 'application/json' };
      const send = async () => (await ada.raw(`${own}/finish`, { method: 'POST', headers, body })).status;
      expect((await Promise.all([send(), send(), send()])).toSorted()).deep.equal([200, 400, 400]);
      expect(await callbackFails(path), 'used').equal('consent_invalid');
      const { body: old } = await api.anonymous.get(await consent(), 200);
      await expire();
      for (const code of [{ consent_code: 'made-up' }, Object(old), JSON.parse(body)]) {
        expect((await ada.post(`${own}/finish`, code, 400)).body).include({ code: 'consent_invalid' });
      }
      for (const forged of [
        (await consent()).replace(/code=[^&]+/, 'code=guessed'),
        `${await consent()}&iss=${encodeURIComponent('https://evil.example')}`,
      ]) {
        expect((await finishConsent(api, ada, forged, 400)).body).include({ code: 'consent_invalid' });
      }
    });

    it('fails with 501, 502 or 503 when the provider rejects the exchange of the code or is down', async () => {
      for (const [reply, status, code] of [
        [{ status: 401, json: { error: 'invalid_client' } }, 501, 'provider_not_configured'],
        [{ status: 400, json: { error: 'odd' } }, 502, 'provider_rejected'],
        [{ status: 500, text: 'down' }, 503, 'provider_unavailable'],
      ] as const) {
        const path = await consent();
        fake.failNext(1, reply);
        expect((await finishConsent(api, ada, path, status)).body).include({ code });
      }
    });
  });
}

describe('connecting to a file provider by consent', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
  });
  const finish = (path: string, status: number, member = ada) => finishConsent(api, member, path, status);

  it('is offered for the providers that have an OAuth client in the deployment', async () => {
    const providers = oauthConnectorProviders.map((provider) => {
      return { provider, label: connectorProviderLabels[provider] };
    });
    expect((await ada.get('/connectors/oauth/providers', 200)).body).deep.equal({ providers });
    const eve = await (await stack()).signUp();
    expect((await eve.get('/connectors/oauth/providers', 200)).body).deep.equal({ providers: [] });
  });

  it('sends login_hint to a provider that supports it', async () => {
    const hintAt = async (provider: 'acme_drive' | 'acme_dropbox') => {
      const hinted = { login_hint: 'ada@example.com' };
      const url = new URL(await beginConsent(ada, `/connectors/oauth/${provider}`, hinted));
      return url.searchParams.get('login_hint');
    };
    expect([await hintAt('acme_drive'), await hintAt('acme_dropbox')]).deep.equal(['ada@example.com', null]);
  });

  it('fails (422) unless all scopes are granted and, for SharePoint, a site is named that the account can read', async () => {
    for (const query of ['', '?site_id=']) {
      const { body } = await ada.get(`/connectors/oauth/acme_sharepoint/authorize${query}`, 422);
      expect(Object(body).errors[0].path).equal('site_id');
    }
    const site = await consentTo(api, ada, 'acme_sharepoint', { query: { site_id: 'no,such,site' } });
    const bare = await consentTo(api, ada, 'acme_drive', { scopes: [] });
    for (const path of [site, bare]) {
      expect((await finish(path, 422)).body).include({ code: 'connection_check_failed' });
    }
  });

  it('reactivates the existing connection when the same account consents again', async () => {
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

  it('creates one connection for each user and account, also if the same account consents twice concurrently', async () => {
    const bob = await api.signUp();
    const listed = async () => Object((await bob.get('/connectors/connections', 200)).body).items;
    const [one, two] = [{ account: 'one@example.com' }, { account: 'two@example.com' }];
    const ids = [await connect(api, bob, 'acme_drive', one), await connect(api, bob, 'acme_drive', two)];
    ids.push(await connect(api, ada, 'acme_drive', one));
    expect(new Set(ids.map(({ id }) => id)).size).equal(3);
    const paths = [await consentTo(api, bob, 'acme_onedrive', one), await consentTo(api, bob, 'acme_onedrive', one)];
    await Promise.all(paths.map((path) => finish(path, 200, bob)));
    expect(await listed()).length(3);
  });

  it('fails with 409 over the connection limit of the tier, and revokes the grant', async () => {
    const bob = await api.signUp();
    await Promise.all(Array.from({ length: 5 }, () => connect(api, bob, 'acme_drive')));
    const path = await consentTo(api, bob, 'acme_drive');
    const before = api.fakes.acme_drive.liveGrants();
    expect((await finish(path, 409, bob)).body).include({ code: 'connection_limit_reached' });
    expect(api.fakes.acme_drive.liveGrants()).equal(before);
  });

  // RFC 9700 §4.7: Mallory begins a consent and sends the address to Bob, who consents at the provider.
  it('fails (400) for a user who did not begin the consent, and afterwards also for the user who did', async () => {
    const [mallory, bob] = [await api.signUp(), await api.signUp()];
    const path = await consentTo(api, mallory, 'acme_drive', { query: { return_to: '/files' } });
    const back = await api.anonymous.raw(path, { redirect: 'manual' });
    // The frontend in Bob's browser finishes the consent, as after every callback.
    const { searchParams } = new URL(back.headers.get('location') ?? '');
    const answer = { consent_code: searchParams.get('consent_code') };
    // The state is used up: Mallory cannot finish with the code either.
    for (const user of [bob, mallory]) {
      const { body } = await user.post('/connectors/oauth/acme_drive/finish', answer, 400);
      expect(body).include({ code: 'consent_invalid' });
      expect((await user.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
    }
  });
});

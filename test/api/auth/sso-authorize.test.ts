import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { type SsoStack, startSsoStack } from '#test/support/sso-stack.ts';
import { stack } from '#test/support/stack.ts';

describe('POST /auth/sso/authorize', () => {
  let api: SsoStack;
  before(async () => {
    api = await startSsoStack();
  });
  after(() => api.close());

  const authorize = (fields: object, status: number) => api.anonymous.post('/auth/sso/authorize', fields, status);
  const addressOf = async (fields: object) => {
    const { body } = await authorize(fields, 200);
    return new URL(Object(body).authorization_url);
  };

  // Must be the first test: the discovery document is cached once it could be read.
  it('503: during a provider outage, and stores no state', async () => {
    for (const discovery of [{ status: 500 }, 'cut'] as const) {
      api.provider.tamper({ answers: { discovery } });
      const { body, headers } = await authorize({ provider: 'acme' }, 503);
      expect(body).to.include({ code: 'provider_unavailable' });
      expect(Number(headers.get('retry-after'))).to.be.greaterThan(0);
    }
    expect(await api.traces()).to.include({ signInStates: 0 });
  });

  it('502: for a discovery document of another issuer, or an incomplete one', async () => {
    const { issuer } = api.provider;
    const addresses = { authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token`, jwks_uri: issuer };
    const incomplete = Object.keys(addresses).flatMap((name) => [
      { issuer, ...addresses, [name]: undefined },
      { issuer, ...addresses, [name]: 'ftp://elsewhere.example' },
    ]);
    const others = [{ issuer: 'https://elsewhere.example' }, { issuer: 'nobody' }, {}, 'Welcome'];
    for (const body of [{ issuer }, ...incomplete, ...others]) {
      api.provider.tamper({ answers: { discovery: { status: 200, body } } });
      expect((await authorize({ provider: 'acme' }, 502)).body).to.include({ code: 'provider_response_invalid' });
    }
    api.provider.tamper({ answers: { discovery: { status: 404 } } });
    expect((await authorize({ provider: 'acme' }, 502)).body).to.include({ code: 'provider_rejected' });
    api.provider.tamper({});
    await authorize({ provider: 'acme' }, 200);
  });

  it('200: returns the address at the provider, with state, nonce and a PKCE challenge', async () => {
    const address = await addressOf({ provider: 'AcmeOAuth' });
    expect(address.origin).to.equal(api.provider.issuer);
    expect(Object.fromEntries(address.searchParams)).to.include({
      response_type: 'code',
      client_id: api.provider.client.id,
      redirect_uri: 'https://app.example/signed-in',
      scope: 'openid email profile',
      code_challenge_method: 'S256',
    });
    const other = await addressOf({ provider: 'acme' });
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(address.searchParams.get(name)).to.have.length(43);
      expect(address.searchParams.get(name)).to.not.equal(other.searchParams.get(name));
    }
  });

  it('200: accepts any page of an allowed origin as redirect_uri', async () => {
    for (const redirect_uri of ['https://other.example/a/b', 'https://app.example/', 'https://app.example/signed-in']) {
      expect((await addressOf({ provider: 'acme', redirect_uri })).searchParams.get('redirect_uri')).to.equal(
        redirect_uri,
      );
    }
  });

  it('200: stores only the hash of the state, and deletes expired states', async () => {
    const { db, sso } = api.container;
    const state = (await addressOf({ provider: 'acme' })).searchParams.get('state') ?? '';
    const hash = createHash('sha256').update(state).digest('hex');
    const rows = await db('signInStates').select(db.raw('to_jsonb(sign_in_states)::text as row'));
    expect(rows.map(({ row }) => row).join())
      .to.include(hash)
      .and.not.include(state);
    await db('signInStates').update({ expiresAt: db.raw("now() - interval '1 second'") });
    await sso.deleteExpired();
    expect(await api.traces()).to.include({ signInStates: 0 });
  });

  it('400: for another provider', async () => {
    for (const provider of ['google', 'acme ', 'acme2']) {
      expect((await authorize({ provider }, 400)).body).to.include({ code: 'unsupported_provider' });
    }
  });

  it('400: for a redirect_uri at an origin that is not allowed, or with a query or a fragment', async () => {
    const addresses = [
      'https://evil.example/signed-in',
      'http://app.example/signed-in',
      'https://app.example:8443/signed-in',
      'https://app.example.evil.example/',
      'https://app.example@evil.example/',
      'https://me@app.example/',
      'https://app.example/signed-in?next=/',
      'https://app.example/signed-in#here',
      'com.example.app:/signed-in',
    ];
    for (const redirect_uri of addresses) {
      const { body } = await authorize({ provider: 'acme', redirect_uri }, 400);
      expect(body, redirect_uri).to.include({ code: 'redirect_not_allowed' });
    }
  });

  it('422: without a provider, and for a redirect_uri that is not a URL', async () => {
    expect((await authorize({}, 422)).body).to.have.nested.property('errors[0].path', 'provider');
    for (const redirect_uri of ['/signed-in', '', 7]) {
      const { body } = await authorize({ provider: 'acme', redirect_uri }, 422);
      expect(body).to.have.nested.property('errors[0].path', 'redirect_uri');
    }
  });

  it('501: in a deployment without an identity provider; another name is still 400', async () => {
    const { anonymous } = await stack();
    const { body } = await anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 501);
    expect(body).to.include({ code: 'provider_not_configured' });
    await anonymous.post('/auth/sso/authorize', { provider: 'google' }, 400);
  });
});

import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { createSignInStrategy, type SignInStrategyDeps } from '#src/adapters/oauth/sign-in-strategy.ts';
import { createIdentityProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import { appError } from '#src/errors.ts';
import { createPassport } from '#src/http/request/authentication.ts';
import type { SignInAttempt } from '#src/ports/identity.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type IdentityProvider, startIdentityProvider } from '#test/support/identity-provider.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';

describe('the client of an identity provider', () => {
  const redirectUri = 'https://app.example/signed-in';
  let server: IdentityProvider;
  beforeEach(async () => {
    server = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
  });
  afterEach(() => server.close());

  function clientOf({ issuer, client }: Pick<IdentityProvider, 'issuer' | 'client'>, deadlineMs = 5_000) {
    return providerOf({ call: createIdentityProviderHttpClient({ issuer, allow: [], deadlineMs }), issuer, client });
  }

  function providerOf(deps: SignInStrategyDeps) {
    const { identityProvider } = createPassport({
      verifyToken: () => {
        throw appError('invalid_token');
      },
      findCaller: async () => null,
      onAccessChange: () => {},
      findSignInStrategy: createSignInStrategy(deps),
    });
    if (identityProvider === null) throw new Error('no identity provider');
    return identityProvider;
  }

  async function signIn(provider: ReturnType<typeof clientOf>, sub = 'ada') {
    const { url, ...attempt } = await provider.begin({ redirectUri, state: 'state-1' });
    const back = await signInAtProvider(url, server.addAccount({ sub, email: `${sub}@example.com` }));
    const answer = { code: back.searchParams.get('code') ?? '', issuer: undefined };
    return (changes: Partial<SignInAttempt> = {}) => provider.identify({ ...attempt, ...changes }, answer);
  }

  it('returns the identity of the user and requests the metadata of the provider once', async () => {
    const provider = clientOf(server);
    for (let count = 0; count < 2; count += 1) {
      const identity = await (await signIn(provider))();
      expect(identity).include({ issuer: server.issuer, subject: 'ada' });
      expect(identity.claims).include({ email: 'ada@example.com', email_verified: true });
    }
    const asked = server.calls.filter((route) => route === 'discovery' || route === 'jwks');
    expect(asked).deep.equal(['discovery', 'jwks']);
  });

  it('redirects the browser with state, nonce and PKCE challenge of the attempt', async () => {
    const provider = clientOf(server);
    const [first, second] = await Promise.all([
      provider.begin({ redirectUri, state: 'state-1' }),
      provider.begin({ redirectUri, state: 'state-2' }),
    ]);
    const { searchParams } = new URL(first.url);
    expect(Object.fromEntries(searchParams)).deep.equal({
      client_id: server.client.id,
      response_type: 'code',
      scope: 'openid email profile',
      redirect_uri: redirectUri,
      state: 'state-1',
      nonce: first.nonce,
      code_challenge: createHash('sha256').update(first.codeVerifier).digest('base64url'),
      code_challenge_method: 'S256',
    });
    expect(first.nonce).not.equal(second.nonce);
    expect(first.codeVerifier).not.equal(second.codeVerifier);
  });

  it('identifies concurrent users by their own codes', async () => {
    const provider = clientOf(server);
    const identify = await Promise.all(['ada', 'eve'].map((sub) => signIn(provider, sub)));
    const identities = await Promise.all(identify.map((finish) => finish()));
    expect(identities.map(({ subject }) => subject)).deep.equal(['ada', 'eve']);
  });

  it('rejects a code with the verifier or the nonce of another attempt', async () => {
    const provider = clientOf(server);
    const other = await provider.begin({ redirectUri, state: 'state-2' });
    const { codeVerifier, nonce } = other;
    expect(await appErrorCode((await signIn(provider))({ codeVerifier }))).equal('sign_in_invalid');
    expect(await appErrorCode((await signIn(provider))({ nonce }))).equal('identity_not_verified');
  });

  it('times out for a silent provider and tries again at the next sign-in', async () => {
    server.tamper({ answers: { discovery: 'silence' } });
    const provider = clientOf(server, 200);
    expect(await appErrorCode(signIn(provider))).equal('provider_unavailable');
    server.tamper({});
    const identify = await signIn(provider);
    server.tamper({ answers: { token: 'silence' } });
    expect(await appErrorCode(identify())).equal('provider_unavailable');
  });

  it('rejects sign-ins while the keys of the provider are unavailable', async () => {
    const provider = clientOf(server);
    for (const [jwks, code] of [
      ['cut', 'provider_unavailable'],
      [{ status: 500 }, 'provider_unavailable'],
      [{ status: 200, body: { keys: [] } }, 'identity_not_verified'],
    ] as const) {
      const identify = await signIn(provider);
      server.tamper({ answers: { jwks } });
      expect(await appErrorCode(identify())).equal(code);
      server.tamper({});
    }
  });

  it('reports that the provider rejects our client', async () => {
    const identify = await signIn(clientOf({ ...server, client: { ...server.client, secret: 'another' } }));
    expect(await appErrorCode(identify())).equal('provider_not_configured');
  });

  it('only connects to the address of the issuer and to public addresses', async () => {
    const other = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
    const body = {
      issuer: server.issuer,
      authorization_endpoint: `${server.issuer}/auth`,
      token_endpoint: `${other.issuer}/token`,
      jwks_uri: `${other.issuer}/jwks`,
    };
    server.tamper({ answers: { discovery: { status: 200, body } } });
    const identify = await signIn(clientOf(server));
    expect(await appErrorCode(identify())).equal('provider_unavailable');
    expect(other.calls).deep.equal([]);
    await other.close();
  });

  it('takes email and email_verified from the same source', async () => {
    const provider = clientOf(server);
    const inToken = { email: 'old@example.com', email_verified: true };
    for (const [userinfo, email] of [
      [{ email: 'ada@example.com' }, { email: 'ada@example.com', email_verified: undefined }],
      [
        { email: 'ada@example.com', email_verified: false },
        { email: 'ada@example.com', email_verified: false },
      ],
      [{}, inToken],
      [{ email_verified: false }, inToken],
    ] as const) {
      const identify = await signIn(provider);
      server.tamper({
        idToken: (claims) => ({ ...claims, ...inToken }),
        userinfo: ({ sub }) => ({ sub, ...userinfo }),
      });
      expect((await identify()).claims).include(email);
    }
  });

  it('does not report an internal error as a failed sign-in', async () => {
    const ours = new TypeError('ours');
    const { issuer, client } = server;
    const provider = providerOf({ call: () => Promise.reject(ours), issuer, client });
    const error = await signIn(provider).catch((thrown: unknown) => thrown);
    expect(error).equal(ours);
  });
});

import { expect } from 'chai';
import * as openid from 'openid-client';
import { type IdentityProvider, startIdentityProvider, type Tampering } from '#test/support/identity-provider.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';

const PATIENCE_SECONDS = 30;
const REDIRECT_URI = 'https://app.example/signed-in';

// A client that keeps to the standard says whether it is a provider, and whether its lies can be seen.
describe('the identity provider of the tests, asked by openid-client', () => {
  let provider: IdentityProvider;
  let configuration: openid.Configuration;

  before(async () => {
    provider = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
    configuration = await openid.discovery(
      new URL(provider.issuer),
      provider.client.id,
      provider.client.secret,
      undefined,
      { execute: [openid.allowInsecureRequests], timeout: PATIENCE_SECONDS },
    );
    // By this the client looks at the signature, too: over TLS it trusts the connection.
    openid.enableNonRepudiationChecks(configuration);
  });
  afterEach(() => provider.tamper({}));
  after(() => provider.close());

  async function begin(changes: Record<string, string> = {}) {
    const codeVerifier = openid.randomPKCECodeVerifier();
    const [state, nonce] = [openid.randomState(), openid.randomNonce()];
    const url = openid.buildAuthorizationUrl(configuration, {
      redirect_uri: REDIRECT_URI,
      scope: 'openid email profile',
      code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
      code_challenge_method: 'S256',
      state,
      nonce,
      ...changes,
    });
    const checks = { pkceCodeVerifier: codeVerifier, expectedState: state, expectedNonce: nonce };
    const finish = (callback: URL) => openid.authorizationCodeGrant(configuration, callback, checks);
    return { url: url.href, finish };
  }

  async function whoIs(tokens: Awaited<ReturnType<typeof openid.authorizationCodeGrant>>) {
    return openid.fetchUserInfo(configuration, tokens.access_token, tokens.claims()?.sub ?? '');
  }

  async function signIn(): Promise<openid.UserInfoResponse> {
    const { url, finish } = await begin();
    return whoIs(await finish(await signInAtProvider(url, provider.addAccount())));
  }

  it('signs somebody in by its forms, and says by userinfo who it is', async () => {
    const picture = 'https://pictures.example/ada.png';
    const account = provider.addAccount({ givenName: 'Ada', familyName: 'Lovelace', picture });
    const { url, finish } = await begin();
    const callback = await signInAtProvider(url, account);
    expect(callback.href.split('?')[0]).equal(REDIRECT_URI);
    const tokens = await finish(callback);
    expect(tokens.claims()).to.include({ iss: provider.issuer, sub: account.sub }).and.not.have.property('email');
    expect(await whoIs(tokens)).deep.equal({
      sub: account.sub,
      email: account.email,
      email_verified: true,
      given_name: 'Ada',
      family_name: 'Lovelace',
      picture,
    });
    expect(provider.calls).to.include.members(['discovery', 'authorization', 'token', 'jwks', 'userinfo']);
  });

  it('exchanges a code once', async () => {
    const { url, finish } = await begin();
    const callback = await signInAtProvider(url, provider.addAccount());
    const tokens = await finish(callback);
    expect(await errorOf(finish(callback))).to.include('invalid_grant');
    expect(await errorOf(whoIs(tokens)), 'what came by it ends').to.include('invalid_token');
  });

  it('insists on PKCE, and on an address of its client', async () => {
    const plain = await begin();
    const withoutChallenge = new URL(plain.url);
    withoutChallenge.searchParams.delete('code_challenge');
    withoutChallenge.searchParams.delete('code_challenge_method');
    const account = provider.addAccount();
    const refused = await signInAtProvider(withoutChallenge.href, account);
    expect(refused.searchParams.get('error')).equal('invalid_request');
    const elsewhere = await begin({ redirect_uri: 'https://elsewhere.example/signed-in' });
    expect(await errorOf(signInAtProvider(elsewhere.url, account))).to.include('invalid_redirect_uri');
  });

  it('lets nobody in by a wrong password, and sends back who cancels', async () => {
    const account = provider.addAccount();
    const { url } = await begin();
    expect(await errorOf(signInAtProvider(url, { ...account, password: 'another' }))).to.include('shows 401');
    const cancelled = await signInAtProvider(url, account, { consents: false });
    expect(cancelled.searchParams.get('error')).equal('access_denied');
  });

  const lies: Record<string, { tampering: Tampering; seen: string }> = {
    'another nonce': { tampering: { idToken: (claims) => ({ ...claims, nonce: 'another' }) }, seen: '"nonce"' },
    'another issuer': {
      tampering: { idToken: (claims) => ({ ...claims, iss: 'https://another.example' }) },
      seen: '"iss"',
    },
    'a foreign audience': { tampering: { idToken: (claims) => ({ ...claims, aud: 'another' }) }, seen: '"aud"' },
    'an ID token of yesterday': { tampering: { idToken: (claims) => ({ ...claims, exp: 1 }) }, seen: '"exp"' },
    'a signature by another key': { tampering: { signature: 'other_key' }, seen: 'signature verification failed' },
    'no signature': { tampering: { signature: 'none' }, seen: '"alg"' },
    'userinfo of somebody else': {
      tampering: { userinfo: (claims) => ({ ...claims, sub: 'somebody-else' }) },
      seen: '"sub"',
    },
    'userinfo that is no JSON': { tampering: { userinfo: () => '<html>' }, seen: 'content-type' },
    'a token endpoint that fails': {
      tampering: { answers: { token: { status: 500 } } },
      seen: 'unexpected HTTP response status',
    },
    'a token endpoint that says nothing': { tampering: { answers: { token: 'silence' } }, seen: 'timed out' },
    'a key set that breaks off': { tampering: { answers: { jwks: 'cut' } }, seen: 'fetch failed' },
  };

  for (const [lie, { tampering, seen }] of Object.entries(lies)) {
    it(`tells by request: ${lie}`, async () => {
      // A key set that is known already is not asked for again.
      const fresh = new openid.Configuration(
        configuration.serverMetadata(),
        provider.client.id,
        provider.client.secret,
      );
      openid.allowInsecureRequests(fresh);
      openid.enableNonRepudiationChecks(fresh);
      fresh.timeout = seen === 'timed out' ? 1 : PATIENCE_SECONDS;
      configuration = fresh;
      provider.tamper(tampering);
      expect(await errorOf(signIn())).to.include(seen);
      provider.tamper({});
      fresh.timeout = PATIENCE_SECONDS;
      expect(await signIn(), 'honest again').to.have.property('email');
    });
  }
});

/** The message of a failure and of what has led to it. */
async function errorOf(work: Promise<unknown>): Promise<string> {
  const messages: string[] = [];
  let error: unknown = await work.then(
    () => new Error('it succeeds'),
    (reason) => reason,
  );
  while (error instanceof Error) {
    messages.push(error.message, String(Object(error).error ?? ''), String(Object(error).status ?? ''));
    error = error.cause;
  }
  return `${messages.join(' ')} ${JSON.stringify(error) ?? ''}`;
}

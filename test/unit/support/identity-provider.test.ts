import { expect } from 'chai';
import * as openid from 'openid-client';
import { type IdentityProvider, startIdentityProvider } from '#test/support/identity-provider.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';

const redirectUri = 'https://app.example/signed-in';

// A client that keeps to the standard shows whether the provider does, and whether its deviations can be seen.
describe('the identity provider of the tests, called by openid-client', () => {
  let provider: IdentityProvider;
  let configuration: openid.Configuration;
  before(async () => {
    provider = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
    const { id, secret } = provider.client;
    const options = { execute: [openid.allowInsecureRequests], timeout: 30 };
    configuration = await openid.discovery(new URL(provider.issuer), id, secret, undefined, options);
    openid.enableNonRepudiationChecks(configuration);
  });
  after(() => provider.close());

  async function begin(changes: Record<string, string> = {}) {
    const pkceCodeVerifier = openid.randomPKCECodeVerifier();
    const [state, nonce] = [openid.randomState(), openid.randomNonce()];
    const { href } = openid.buildAuthorizationUrl(configuration, {
      ...{ redirect_uri: redirectUri, scope: 'openid email profile', state, nonce, code_challenge_method: 'S256' },
      code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
      ...changes,
    });
    const checks = { pkceCodeVerifier, expectedState: state, expectedNonce: nonce };
    return { url: href, finish: (callback: URL) => openid.authorizationCodeGrant(configuration, callback, checks) };
  }
  const userOf = (tokens: Awaited<ReturnType<typeof openid.authorizationCodeGrant>>) =>
    openid.fetchUserInfo(configuration, tokens.access_token, tokens.claims()?.sub ?? '');

  it('signs a user in by its forms, says by userinfo who it is, and exchanges a code once', async () => {
    const picture = 'https://pictures.example/ada.png';
    const account = provider.addAccount({ givenName: 'Ada', familyName: 'Lovelace', picture });
    const { url, finish } = await begin();
    const callback = await signInAtProvider(url, account);
    expect(callback.href.split('?')[0]).equal(redirectUri);
    const tokens = await finish(callback);
    expect(tokens.claims()).include({ iss: provider.issuer, sub: account.sub }).and.not.property('email');
    const { sub, email } = account;
    const names = { given_name: 'Ada', family_name: 'Lovelace', picture };
    expect(await userOf(tokens)).deep.equal({ sub, email, email_verified: true, ...names });
    expect(provider.calls).include.members(['discovery', 'authorization', 'token', 'jwks', 'userinfo']);
    expect(await errorOf(finish(callback))).include('invalid_grant');
    expect(await errorOf(userOf(tokens)), 'the tokens of the code are revoked').include('invalid_token');
  });

  it('refuses a request without PKCE, another address, a wrong password and a user who cancels', async () => {
    const account = provider.addAccount();
    const { url } = await begin();
    const plain = new URL(url);
    for (const name of ['code_challenge', 'code_challenge_method']) plain.searchParams.delete(name);
    const refused = await signInAtProvider(plain.href, account);
    expect(refused.searchParams.get('error')).equal('invalid_request');
    const elsewhere = await begin({ redirect_uri: 'https://elsewhere.example/signed-in' });
    expect(await errorOf(signInAtProvider(elsewhere.url, account))).include('invalid_redirect_uri');
    expect(await errorOf(signInAtProvider(url, { ...account, password: 'another' }))).include('shows 401');
    const cancelled = await signInAtProvider(url, account, { consents: false });
    expect(cancelled.searchParams.get('error')).equal('access_denied');
  });
});

/** The messages of a failure and of its causes. */
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

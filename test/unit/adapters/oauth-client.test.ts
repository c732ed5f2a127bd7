import { expect } from 'chai';
import { createOAuthClient } from '#src/adapters/oauth/oauth-client.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type FakeGoogle, startFakeGoogle } from '#test/support/fake-google.ts';

describe('the OAuth client', () => {
  const redirectUri = 'https://api.example.com/callback';
  const scopes = ['https://www.googleapis.com/auth/calendar.readonly'];
  let google: FakeGoogle;
  before(async () => {
    google = await startFakeGoogle();
  });
  after(() => google.close());

  const clientFor = (allow: string[], deadlineMs = 5_000) =>
    createOAuthClient({ call: createProviderHttpClient({ agent: createGuardedAgent({ allow }), deadlineMs }) });
  const provider = (client = google.client) => ({
    issuer: google.baseUrl,
    authorizeUrl: `${google.baseUrl}/o/oauth2/v2/auth`,
    tokenUrl: `${google.baseUrl}/token`,
    revokeUrl: `${google.baseUrl}/revoke`,
    client,
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  });

  async function consent() {
    const oauth = clientFor([google.place]);
    const codeVerifier = oauth.newCodeVerifier();
    const asked = { state: 'state-1', codeVerifier, redirectUri, scopes };
    const back = await google.consent(await oauth.authorizeUrl(provider(), asked));
    expect(back.searchParams.get('state')).equal('state-1');
    return { oauth, codeVerifier, code: back.searchParams.get('code') ?? '', issuer: undefined, redirectUri };
  }

  it('authorizes with PKCE, exchanges the code, and refreshes the tokens', async () => {
    const { oauth, ...given } = await consent();
    const tokens = await oauth.exchange(provider(), given);
    expect(tokens.scopes).deep.equal(scopes);
    expect(Number(tokens.expiresAt)).within(Date.now() + 3_500_000, Date.now() + 3_600_000);
    const refreshed = await oauth.refresh(provider(), tokens.refreshToken ?? '');
    expect(refreshed.accessToken).not.equal(tokens.accessToken);
    expect(refreshed.refreshToken).equal(null);
    await oauth.revoke(provider(), tokens.refreshToken ?? '');
    expect(await appErrorCode(oauth.refresh(provider(), tokens.refreshToken ?? ''))).equal('needs_reauth');
    await oauth.revoke(provider(), tokens.refreshToken ?? '');
  });

  it('rejects a code that was used, or has another verifier or issuer', async () => {
    const { oauth, ...given } = await consent();
    const wrong = { ...given, codeVerifier: oauth.newCodeVerifier() };
    expect(await appErrorCode(oauth.exchange(provider(), wrong))).equal('consent_invalid');
    const foreign = { ...given, issuer: 'https://evil.example' };
    expect(await appErrorCode(oauth.exchange(provider(), foreign))).equal('consent_invalid');
    await oauth.exchange(provider(), { ...given, issuer: google.baseUrl });
    expect(await appErrorCode(oauth.exchange(provider(), given))).equal('consent_invalid');
  });

  it('tells a rejected client from an ended grant', async () => {
    const { oauth, ...given } = await consent();
    const stranger = provider({ id: 'nobody', secret: 'x' });
    expect(await appErrorCode(oauth.exchange(stranger, given))).equal('provider_not_configured');
    expect(await appErrorCode(oauth.refresh(stranger, 'r'))).equal('provider_not_configured');
    const elsewhere = { ...given, redirectUri: 'https://api.example.com/other' };
    expect(await appErrorCode(oauth.exchange(provider(), elsewhere))).equal('provider_not_configured');
  });

  it('does not take an outage of the provider for the end of a grant', async () => {
    const { oauth, ...given } = await consent();
    const { refreshToken } = await oauth.exchange(provider(), given);
    const troubles = [
      { status: 503, text: 'down' },
      { status: 500, json: { error: 'invalid_grant' } },
      { status: 429, json: { error: 'invalid_grant' } },
      { status: 200, text: '<html>' },
      { status: 200, json: { token_type: 'Bearer' } },
      { status: 200, json: { access_token: 7, token_type: 'Bearer' } },
      { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
      { status: 200, text: 'x'.repeat(1_100_000) },
    ];
    for (const trouble of troubles) {
      google.failNext(1, trouble);
      const code = await appErrorCode(oauth.refresh(provider(), refreshToken ?? ''));
      expect(code, JSON.stringify(trouble).slice(0, 80)).equal('provider_unavailable');
    }
    google.failNext(1, { status: 400, text: 'odd' });
    expect(await appErrorCode(oauth.refresh(provider(), refreshToken ?? ''))).equal('provider_rejected');
    await oauth.refresh(provider(), refreshToken ?? '');
  });

  it('times out on a silent provider, and refuses private addresses', async () => {
    google.failNext(1, 'silence');
    expect(await appErrorCode(clientFor([google.place], 50).refresh(provider(), 'r'))).equal('provider_unavailable');
    const calls = google.calls.length;
    expect(await appErrorCode(clientFor([]).refresh(provider(), 'r'))).equal('provider_unavailable');
    expect(google.calls).length(calls);
  });

  it('passes its own errors on unchanged', async () => {
    const ours = new TypeError('ours');
    const oauth = createOAuthClient({ call: () => Promise.reject(ours) });
    expect(await oauth.refresh(provider(), 'r').catch((thrown: unknown) => thrown)).equal(ours);
  });

  it('does not quote requests or answers in errors', async () => {
    const { oauth } = await consent();
    google.failNext(1, { status: 400, json: { error: 'odd', error_description: 'about s3cret-token' } });
    const error = await oauth.refresh(provider(), 's3cret-token').then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(Object(error).cause).equal(undefined);
    expect(`${Object(error).stack} ${JSON.stringify(error)}`).not.contain('s3cret');
  });
});

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
  let oauth: ReturnType<typeof createOAuthClient>;
  before(async () => {
    google = await startFakeGoogle();
    const agent = createGuardedAgent({ allow: [google.place] });
    oauth = createOAuthClient({ call: createProviderHttpClient({ agent, deadlineMs: 5_000 }) });
  });
  after(() => google.close());

  const provider = (client = google.client) => ({
    issuer: google.baseUrl,
    authorizeUrl: `${google.baseUrl}/o/oauth2/v2/auth`,
    tokenUrl: `${google.baseUrl}/token`,
    revokeUrl: `${google.baseUrl}/revoke`,
    client,
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  });

  async function consent() {
    const codeVerifier = oauth.newCodeVerifier();
    const asked = { state: 'state-1', codeVerifier, redirectUri, scopes };
    const { searchParams } = await google.consent(await oauth.authorizeUrl(provider(), asked));
    expect(searchParams.get('state')).equal('state-1');
    return { codeVerifier, code: searchParams.get('code') ?? '', issuer: undefined, redirectUri };
  }
  const exchangeFails = async (...of: Parameters<typeof oauth.exchange>) => appErrorCode(oauth.exchange(...of));
  const refreshFails = (refreshToken: string) => appErrorCode(oauth.refresh(provider(), refreshToken));

  // The consents of test/api exchange codes, refresh tokens and revoke grants.
  it('rejects an authorization code that is sent with a code verifier other than that of its consent', async () => {
    const given = { ...(await consent()), codeVerifier: oauth.newCodeVerifier() };
    expect(await exchangeFails(provider(), given)).equal('consent_invalid');
  });

  it('reports a rejected client or redirect URL as a wrong configuration, not as a revoked consent', async () => {
    const given = await consent();
    const stranger = provider({ id: 'stranger', secret: 'x' });
    expect(await exchangeFails(stranger, given)).equal('provider_not_configured');
    expect(await appErrorCode(oauth.refresh(stranger, 'r'))).equal('provider_not_configured');
    const elsewhere = { ...given, redirectUri: 'https://api.example.com/other' };
    expect(await exchangeFails(provider(), elsewhere)).equal('provider_not_configured');
  });

  it('does not report an outage of the provider as a revoked consent', async () => {
    const { refreshToken } = await oauth.exchange(provider(), await consent());
    for (const [trouble, code = 'provider_unavailable'] of [
      [{ status: 503, text: 'down' }],
      [{ status: 500, json: { error: 'invalid_grant' } }],
      [{ status: 429, json: { error: 'invalid_grant' } }],
      [{ status: 200, text: '<html>' }],
      [{ status: 200, json: { token_type: 'Bearer' } }],
      [{ status: 200, json: { access_token: 7, token_type: 'Bearer' } }],
      [{ status: 302, headers: { location: 'http://127.0.0.1:1/' } }],
      [{ status: 200, text: 'x'.repeat(1_100_000) }],
      [{ status: 400, text: 'odd' }, 'provider_rejected'],
    ] as const) {
      google.failNext(1, trouble);
      expect(await refreshFails(refreshToken ?? ''), JSON.stringify(trouble).slice(0, 80)).equal(code);
    }
    await oauth.refresh(provider(), refreshToken ?? '');
  });

  it('quotes no request or response in its errors, and passes on unknown errors unchanged', async () => {
    google.failNext(1, { status: 400, json: { error: 'odd', error_description: 'about s3cret-token' } });
    const error = await oauth.refresh(provider(), 's3cret-token').catch((thrown: unknown) => Object(thrown));
    expect(error.cause).equal(undefined);
    expect(`${error.stack} ${JSON.stringify(error)}`).not.contain('s3cret');
    const ours = new TypeError('ours');
    const broken = createOAuthClient({ call: () => Promise.reject(ours) });
    expect(await broken.refresh(provider(), 'r').catch((thrown: unknown) => thrown)).equal(ours);
  });
});

import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { Tampering } from '#test/support/identity-provider.ts';
import { type SsoStack, startSsoStack } from '#test/support/sso-stack.ts';
import { stack } from '#test/support/stack.ts';

describe('GET /auth/sso/callback', () => {
  let api: SsoStack;
  before(async () => {
    api = await startSsoStack();
  });
  after(() => api.close());
  afterEach(() => api.provider.tamper({}));

  const come = async (path: string, status: number) => Object((await api.anonymous.get(path, status)).body);

  /** Sends a callback that is refused: it uses its state up and stores nothing. */
  async function expectRefusal(path: string, status: number, code: string): Promise<Headers> {
    const { signInStates = 0, ...before } = await api.traces();
    const { body, headers } = await api.anonymous.get(path, status);
    expect(body).to.include({ code });
    expect(await api.traces()).to.deep.equal({ ...before, signInStates: signInStates - 1 });
    return headers;
  }

  it('200: creates an account and an organization for a new user, with the names of the provider', async () => {
    const person = { givenName: ' Ada ', familyName: 'Lovelace', picture: 'https://pictures.example/ada.png' };
    const account = api.provider.addAccount({ ...person, email: `Ada-${process.pid}@Example.com` });
    const response = await api.anonymous.get(await api.visit(account), 200);
    expect(response.headers.get('cache-control')).to.equal('no-store');
    const tokens = tokenResponse.parse(response.body);
    expect(tokens).to.include({ is_new_user: true, needs_profile_completion: false });
    expect(tokens.organization).to.include({ name: "Ada Lovelace's organization", tier: 'free', is_org_admin: true });
    const ada = api.anonymous.withToken(tokens.access_token);
    expect((await ada.get('/entity/me/profile', 200)).body).to.include({
      email: `ada-${process.pid}@example.com`,
      first_name: 'Ada',
      last_name: 'Lovelace',
      display_name: 'Ada Lovelace',
      has_password: false,
    });
    const { db } = api.container;
    const { sub } = decodeJwt(tokens.access_token);
    expect(await db('users').where({ id: sub }).first()).to.include({ avatarUrl: person.picture });
    expect(await db('userIdentities').where({ userId: sub })).to.have.length(1);
    expect(await db('auditLog').where({ actorId: sub }).pluck('action')).to.deep.equal(['account.registered']);
    expect((await ada.get('/folders', 200)).body).to.have.length(2);
  });

  it('200: signs a known identity in to the same account, even if its email has changed', async () => {
    const account = api.provider.addAccount();
    const first = await api.signIn(account);
    expect(first).to.include({ is_new_user: true, needs_profile_completion: true });
    api.provider.tamper({ userinfo: (claims) => ({ ...claims, email: 'other@example.com', email_verified: false }) });
    const second = await api.signIn(account);
    expect(second).to.include({ is_new_user: false });
    const { sub: userId, sid } = decodeJwt(second.access_token);
    expect(userId).to.equal(decodeJwt(first.access_token).sub);
    const opened = api.container.db('auditLog').where({ actorId: userId, action: 'session.opened', target: sid });
    expect(await opened).to.have.length(1);
    await api.anonymous.post('/auth/refresh_tokens', { refresh_token: first.refresh_token }, 200);
  });

  it('200: with and without the parameter iss', async () => {
    const path = await api.visit(api.provider.addAccount());
    expect(path).to.include('iss=');
    await come(path, 200);
    await come((await api.visit(api.provider.addAccount())).replace(/&iss=[^&]*/, ''), 200);
  });

  it('200: ignores unsafe names and pictures', async () => {
    const odd = { givenName: 'a\u202eb', familyName: 'x'.repeat(201), picture: 'javascript:alert(1)' };
    const tokens = await api.signIn(api.provider.addAccount(odd));
    expect(tokens).to.include({ is_new_user: true, needs_profile_completion: true });
    const user = await api.container
      .db('users')
      .where({ id: decodeJwt(tokens.access_token).sub })
      .first();
    expect(user).to.include({ firstName: null, lastName: null, avatarUrl: null });
  });

  it('200: links an account to the verified owner of its email, and ends password and sessions', async () => {
    const member = await api.signUp();
    const tokens = await api.signIn(api.provider.addAccount({ email: member.email }));
    expect(tokens).to.include({ is_new_user: false });
    expect(decodeJwt(tokens.access_token).sub).to.equal(member.userId);
    expect(tokens.organization.org_id).to.equal(member.orgId);
    const { email, password, refreshToken } = member;
    await member.get('/entity/me/profile', 401);
    await api.anonymous.post('/auth/login', { username: email, password }, 401);
    await api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
    const entry = await api.container
      .db('auditLog')
      .where({ action: 'identity.linked', target: member.userId })
      .first();
    expect(entry).to.deep.include({ actorId: member.userId, detail: { had_password: true } });
  });

  it('200: creates one account for concurrent sign-ins of one identity', async () => {
    const newcomer = api.provider.addAccount();
    const member = await api.signUp();
    for (const account of [newcomer, api.provider.addAccount({ email: member.email })]) {
      const paths: string[] = [];
      for (let count = 0; count < 6; count += 1) paths.push(await api.visit(account));
      const all = await Promise.all(paths.map(async (path) => tokenResponse.parse(await come(path, 200))));
      expect(new Set(all.map(({ access_token }) => decodeJwt(access_token).sub)).size).to.equal(1);
      expect(all.filter(({ is_new_user }) => is_new_user)).to.have.length(account === newcomer ? 1 : 0);
    }
  });

  it('400: for a state that is unknown, used or expired', async () => {
    const path = await api.visit(api.provider.addAccount());
    await come(path, 200);
    expect(await come(path, 400)).to.include({ code: 'sign_in_invalid' });
    expect(await come('/auth/sso/callback?code=a&state=b', 400)).to.include({ code: 'sign_in_invalid' });
    const late = await api.visit(api.provider.addAccount());
    await api.container.db('signInStates').update({ expiresAt: new Date(Date.now() - 1_000) });
    await expectRefusal(late, 400, 'sign_in_invalid');
  });

  it('400: for all but one of several concurrent requests of one callback', async () => {
    const path = await api.visit(api.provider.addAccount());
    const responses = await Promise.all(Array.from({ length: 6 }, () => api.anonymous.raw(path)));
    expect(responses.map(({ status }) => status).sort()).to.deep.equal([200, 400, 400, 400, 400, 400]);
  });

  it('400: for a code that the provider rejects, such as one of another sign-in', async () => {
    const made = await api.visit(api.provider.addAccount());
    await expectRefusal(made.replace(/code=[^&]+/, 'code=invented'), 400, 'sign_in_invalid');
    const theirs = new URLSearchParams((await api.visit(api.provider.addAccount())).split('?')[1]).get('code');
    const mine = (await api.visit(api.provider.addAccount())).replace(/code=[^&]+/, `code=${theirs}`);
    await expectRefusal(mine, 400, 'sign_in_invalid');
  });

  it('400: when the user denies consent at the provider', async () => {
    const path = await api.visit(api.provider.addAccount(), { consents: false });
    expect(path).to.include('error=access_denied');
    await expectRefusal(path, 400, 'sign_in_denied');
    const both = `${await api.visit(api.provider.addAccount())}&error=access_denied`;
    await expectRefusal(both, 400, 'sign_in_denied');
    await come(path, 400);
  });

  const ofSubject = (sub: string): Tampering => ({
    idToken: (claims) => ({ ...claims, sub }),
    userinfo: (claims) => ({ ...claims, sub }),
  });
  const lies: Record<string, Tampering> = {
    'another nonce': { idToken: (claims) => ({ ...claims, nonce: 'other' }) },
    'no nonce': { idToken: ({ nonce, ...claims }) => claims },
    'another issuer': { idToken: (claims) => ({ ...claims, iss: 'https://elsewhere.example' }) },
    'another audience': { idToken: (claims) => ({ ...claims, aud: 'another-service' }) },
    'an audience of several without us': { idToken: (claims) => ({ ...claims, aud: ['a', 'b'], azp: 'a' }) },
    'another authorized party': {
      idToken: (claims) => ({ ...claims, aud: [String(claims.aud), 'another-service'], azp: 'another-service' }),
    },
    'another authorized party beside us alone': { idToken: (claims) => ({ ...claims, azp: 'another-service' }) },
    'an expiry an hour ago': { idToken: (claims) => ({ ...claims, exp: Math.floor(Date.now() / 1_000) - 3_600 }) },
    'no subject': { idToken: ({ sub, ...claims }) => claims },
    'a signature of another key': { signature: 'other_key' },
    'no signature': { signature: 'none' },
    'a subject of 256 characters': ofSubject('a'.repeat(256)),
    'a subject that is not ASCII': ofSubject('jos\u00e9'),
    'userinfo of another user': { userinfo: (claims) => ({ ...claims, sub: 'other' }) },
  };
  for (const [what, tampering] of Object.entries(lies)) {
    it(`401: for an ID token with ${what}`, async () => {
      const path = await api.visit(api.provider.addAccount());
      api.provider.tamper(tampering);
      await expectRefusal(path, 401, 'identity_not_verified');
    });
  }

  it('401: when iss names another provider', async () => {
    const path = await api.visit(api.provider.addAccount());
    await expectRefusal(path.replace(/iss=[^&]*/, 'iss=https://elsewhere.example'), 401, 'identity_not_verified');
    const reasons = await api.container.db('auditLog').where({ action: 'session.refused' }).pluck('detail');
    expect(reasons).to.deep.include({ reason: 'identity_not_verified' });
  });

  it('403: without an email that the provider has verified, also if it has an account', async () => {
    const { email } = await api.signUp();
    for (const claims of [{ emailVerified: false }, { email: null }, { email, emailVerified: false }]) {
      await expectRefusal(await api.visit(api.provider.addAccount(claims)), 403, 'email_not_verified');
    }
    for (const email_verified of ['false', 1, null]) {
      const path = await api.visit(api.provider.addAccount());
      api.provider.tamper({ userinfo: (said) => ({ ...said, email_verified }) });
      await expectRefusal(path, 403, 'email_not_verified');
      api.provider.tamper({});
    }
  });

  it('403: when email_verified belongs to a different email', async () => {
    const { email } = await api.signUp();
    const path = await api.visit(api.provider.addAccount());
    api.provider.tamper({
      idToken: (claims) => ({ ...claims, email: 'mallory@example.com', email_verified: true }),
      userinfo: ({ email_verified, ...claims }) => ({ ...claims, email }),
    });
    await expectRefusal(path, 403, 'email_not_verified');
  });

  it('403: for a disabled account, found by its identity or by its email', async () => {
    const known = api.provider.addAccount();
    const { sub: userId } = decodeJwt((await api.signIn(known)).access_token);
    const member = await api.signUp();
    await api.container
      .db('users')
      .whereIn('id', [String(userId), member.userId])
      .update({ disabledAt: new Date() });
    await expectRefusal(await api.visit(known), 403, 'account_disabled');
    await expectRefusal(await api.visit(api.provider.addAccount({ email: member.email })), 403, 'account_disabled');
    const refusals = api.container.db('auditLog').where({ action: 'session.refused', target: member.userId });
    expect((await refusals)[0]).to.deep.include({ detail: { reason: 'account_disabled' } });
  });

  it('409: for an email whose account is linked to another user of the provider', async () => {
    const before = api.provider.addAccount();
    const { access_token, organization } = await api.signIn(before);
    const successor = api.provider.addAccount();
    const path = await api.visit(successor);
    api.provider.tamper({ userinfo: (claims) => ({ ...claims, email: before.email }) });
    await expectRefusal(path, 409, 'email_taken');
    await api.anonymous.withToken(access_token).get('/entity/me/profile', 200);
    const refusals = api.container.db('auditLog').where({ action: 'session.refused', orgId: organization.org_id });
    const target = decodeJwt(access_token).sub;
    expect(await refusals.select('target', 'detail')).to.deep.equal([{ target, detail: { reason: 'email_taken' } }]);
  });

  it('409: for all but one of several identities that sign in concurrently with one email', async () => {
    const { email, userId } = await api.signUp();
    const paths: string[] = [];
    for (let count = 0; count < 4; count += 1) paths.push(await api.visit(api.provider.addAccount()));
    api.provider.tamper({ userinfo: (claims) => ({ ...claims, email }) });
    const responses = await Promise.all(paths.map((path) => api.anonymous.raw(path)));
    expect(responses.map(({ status }) => status).sort()).to.deep.equal([200, 409, 409, 409]);
    expect(await api.container.db('userIdentities').where({ userId })).to.have.length(1);
  });

  it('422: without a state, and without a code or an error', async () => {
    for (const [query, path] of [
      ['code=a', 'state'],
      ['state=a', 'code'],
      ['state=&code=a', 'state'],
    ]) {
      expect(await come(`/auth/sso/callback?${query}`, 422)).to.have.nested.property('errors[0].path', path);
    }
  });

  it('501: in a deployment without an identity provider, and when the provider rejects our client', async () => {
    const { anonymous } = await stack();
    const { body } = await anonymous.get('/auth/sso/callback?code=a&state=b', 501);
    expect(body).to.include({ code: 'provider_not_configured' });
    const path = await api.visit(api.provider.addAccount());
    api.provider.tamper({ answers: { token: { status: 401, body: { error: 'invalid_client' } } } });
    await expectRefusal(path, 501, 'provider_not_configured');
  });

  it('502: for an unusable response of the provider', async () => {
    const answers: [Tampering, string][] = [
      [{ userinfo: () => '<p>Welcome</p>' }, 'provider_response_invalid'],
      [{ answers: { userinfo: { status: 200, body: '{' } } }, 'provider_response_invalid'],
      [{ answers: { token: { status: 200, body: 'Welcome' } } }, 'provider_response_invalid'],
      [{ answers: { token: { status: 404 } } }, 'provider_rejected'],
      [{ answers: { userinfo: { status: 403 } } }, 'provider_rejected'],
      [{ answers: { userinfo: { status: 401 } } }, 'provider_rejected'],
      [{ answers: { userinfo: { status: 401, headers: { 'www-authenticate': 'Bearer' } } } }, 'provider_rejected'],
    ];
    for (const [tampering, code] of answers) {
      const path = await api.visit(api.provider.addAccount());
      api.provider.tamper(tampering);
      await expectRefusal(path, 502, code);
      api.provider.tamper({});
    }
  });

  it('503: during a provider outage, without partial changes; the next sign-in works', async () => {
    const account = api.provider.addAccount();
    for (const route of ['token', 'userinfo'] as const) {
      for (const answer of [{ status: 500 }, { status: 429 }, 'cut'] as const) {
        const path = await api.visit(account);
        api.provider.tamper({ answers: { [route]: answer } });
        const headers = await expectRefusal(path, 503, 'provider_unavailable');
        expect(Number(headers.get('retry-after'))).to.be.greaterThan(0);
        api.provider.tamper({});
      }
    }
    expect(await api.signIn(account)).to.include({ is_new_user: true });
  });
});

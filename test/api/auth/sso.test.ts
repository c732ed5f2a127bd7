import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type TokenResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import { type ApiClient, statusesOf } from '#test/support/client.ts';
import {
  type IdentityProvider,
  type IdentityProviderAccount,
  startIdentityProvider,
} from '#test/support/identity-provider.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

describe('single sign-on:', () => {
  const password = 'Another-horse-2';
  let provider: IdentityProvider;
  let api: Stack;
  before(async () => {
    const redirectOrigins = ['https://app.example', 'https://other.example'];
    provider = await startIdentityProvider({ redirectOrigins });
    const SSO_REDIRECT_URI = `${redirectOrigins[0]}/signed-in`;
    const settings = { ...provider.settings, SSO_REDIRECT_URI, SSO_REDIRECT_ORIGINS: redirectOrigins.join() };
    api = await startStack(settings, { workers: false });
  });
  after(async () => {
    await api.close();
    await provider.close();
  });
  afterEach(() => provider.tamper({}));

  /** Signs in at the provider. @returns the path of the callback with the query that the provider has sent */
  async function visit(account: IdentityProviderAccount, options?: { consents: boolean }): Promise<string> {
    const { body } = await api.anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
    return `/auth/sso/callback${(await signInAtProvider(Object(body).authorization_url, account, options)).search}`;
  }
  const signIn = async (account: IdentityProviderAccount) =>
    tokenResponse.parse((await api.anonymous.get(await visit(account), 200)).body);
  const userIdOf = ({ access_token }: TokenResponse) => String(decodeJwt(access_token).sub);
  const clientOf = ({ access_token }: TokenResponse): ApiClient => api.anonymous.withToken(access_token);
  const profileOf = async (tokens: TokenResponse) => (await clientOf(tokens).get('/entity/me/profile', 200)).body;
  const states = () => api.container.db('signInStates');
  const auditOf = async (target: string, action: string) =>
    (await auditEntries(api, target)).filter((entry) => entry.action === action);
  const login = (username: string, secret: string, status: number) =>
    api.anonymous.post('/auth/login', { username, password: secret }, status);

  describe('POST /auth/sso/authorize', () => {
    const authorize = async (fields: object, status: number) =>
      Object((await api.anonymous.post('/auth/sso/authorize', fields, status)).body);
    const addressOf = async (fields: object) => new URL((await authorize(fields, 200)).authorization_url);

    // Must be the first test: the discovery document is cached once it could be read.
    it('502 and 503: for an invalid or unavailable discovery document, and stores no state', async () => {
      provider.tamper({ answers: { discovery: 'cut' } });
      const { body, headers } = await api.anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 503);
      expect(body).include({ code: 'provider_unavailable' });
      expect(Number(headers.get('retry-after'))).above(0);
      provider.tamper({ answers: { discovery: { status: 200, body: 'Welcome' } } });
      expect(await authorize({ provider: 'acme' }, 502)).include({ code: 'provider_response_invalid' });
      expect(await states()).deep.equal([]);
      provider.tamper({});
      await authorize({ provider: 'acme' }, 200);
    });

    it('200: returns the URL of the provider, and stores only the hash of its state until that expires', async () => {
      const { origin, searchParams } = await addressOf({ provider: 'AcmeOAuth' });
      expect([origin, searchParams.get('redirect_uri')]).deep.equal([provider.issuer, 'https://app.example/signed-in']);
      const state = searchParams.get('state') ?? '';
      const hash = createHash('sha256').update(state).digest('hex');
      const rows = JSON.stringify(await states().select(api.container.db.raw('sign_in_states::text as row')));
      expect([state.length, rows.includes(hash), rows.includes(state)]).deep.equal([43, true, false]);
      await states().update({ expiresAt: new Date(Date.now() - 1_000) });
      await api.container.sso.deleteExpired();
      expect(await states()).deep.equal([]);
    });

    it('200 or 400: accepts known providers only, and a redirect_uri of an allowed origin and no query', async () => {
      const redirect_uri = 'https://other.example/a/b';
      const { searchParams } = await addressOf({ provider: 'acme', redirect_uri });
      expect(searchParams.get('redirect_uri')).equal(redirect_uri);
      for (const [refused, code] of [
        [{ redirect_uri: 'https://evil.example/signed-in' }, 'redirect_not_allowed'],
        [{ redirect_uri: 'https://app.example/?next=/' }, 'redirect_not_allowed'],
        [{ redirect_uri: 'https://app.example/#here' }, 'redirect_not_allowed'],
        [{ provider: 'google' }, 'unsupported_provider'],
        [{ provider: 'acme2' }, 'unsupported_provider'],
      ] as const) {
        expect(await authorize({ provider: 'acme', ...refused }, 400)).include({ code });
      }
    });

    it('501: without a configured identity provider, also at the callback', async () => {
      const { anonymous } = await stack();
      await anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 501);
      const { body } = await anonymous.get('/auth/sso/callback?code=a&state=b', 501);
      expect(body).include({ code: 'provider_not_configured' });
    });
  });

  describe('GET /auth/sso/callback', () => {
    const come = async (path: string, status: number) => Object((await api.anonymous.get(path, status)).body);

    /** Sends a callback that is refused and uses its state up. */
    async function expectRefusal(path: string, status: number, code: string): Promise<Headers> {
      const { body, headers } = await api.anonymous.get(path, status);
      expect(body).include({ code });
      expect(await come(path, 400)).include({ code: 'sign_in_invalid' });
      return headers;
    }
    const visitAsNewcomer = (fields = {}) => visit(provider.addAccount(fields));

    it('200: creates an account and an organization for a new user, with names and picture from the provider', async () => {
      const person = { givenName: ' Ada ', familyName: 'Lovelace', picture: 'https://pictures.example/ada.png' };
      const email = `Ada-${process.pid}@Example.com`;
      const response = await api.anonymous.get(await visitAsNewcomer({ ...person, email }), 200);
      expect(response.headers.get('cache-control')).equal('no-store');
      const tokens = tokenResponse.parse(response.body);
      expect(tokens).include({ is_new_user: true, needs_profile_completion: false });
      expect(tokens.organization).include({ name: "Ada Lovelace's organization", tier: 'free', is_org_admin: true });
      const names = { first_name: 'Ada', last_name: 'Lovelace', display_name: 'Ada Lovelace' };
      const profile = { email: email.toLowerCase(), ...names, avatar_fallback_url: person.picture };
      expect(await profileOf(tokens)).include({ ...profile, has_avatar: false, has_password: false });
      expect((await clientOf(tokens).get('/folders', 200)).body).length(2);
      expect(await auditOf(userIdOf(tokens), 'account.registered')).length(1);
      // Colleagues see the picture at the provider until the user uploads an avatar.
      const path = `/entity/users/${userIdOf(tokens)}/avatar`;
      const { status, headers } = await clientOf(tokens).raw(path, { redirect: 'manual' });
      expect([status, headers.get('location')]).deep.equal([302, person.picture]);
      expect(headers.get('cache-control')).equal('no-store');
      await clientOf(tokens).get('/entity/me/avatar', 404);
      await uploadAvatar(clientOf(tokens), gifOfFrames(1), 200);
      await clientOf(tokens).get(path, 200);
    });

    it('200: signs a known identity in to its account, even if its email has changed', async () => {
      const account = provider.addAccount();
      const first = await signIn(account);
      provider.tamper({ userinfo: (claims) => ({ ...claims, email: 'other@example.com', email_verified: false }) });
      const second = await signIn(account);
      expect(second).include({ is_new_user: false });
      expect(userIdOf(second)).equal(userIdOf(first));
      expect(await auditOf(String(decodeJwt(second.access_token).sid), 'session.opened')).length(1);
      await api.anonymous.post('/auth/refresh_tokens', { refresh_token: first.refresh_token }, 200);
    });

    it('200 or 401: accepts a missing iss parameter, and rejects the iss of another provider', async () => {
      const visitWith = async (iss: string) => (await visitAsNewcomer()).replace(/&iss=[^&]*/, iss);
      await come(await visitWith(''), 200);
      await expectRefusal(await visitWith('&iss=https://elsewhere.example'), 401, 'identity_not_verified');
      const [refusal] = await api.container.audit.list({ action: 'session.refused' }, 1);
      expect(refusal).deep.include({ detail: { reason: 'identity_not_verified' } });
    });

    it('200: ignores unsafe names and picture URLs, and updates the picture at each sign-in', async () => {
      const odd = { givenName: 'a\u202eb', familyName: 'x'.repeat(201), picture: 'javascript:alert(1)' };
      const account = provider.addAccount(odd);
      const tokens = await signIn(account);
      expect(tokens).include({ is_new_user: true, needs_profile_completion: true });
      expect(await profileOf(tokens)).include({ first_name: null, last_name: null, avatar_fallback_url: null });
      const pictures = { 'https://pictures.example/a.png': 'https://pictures.example/a.png', 'http://a.example': null };
      for (const [picture, shown] of Object.entries(pictures)) {
        provider.tamper({ userinfo: (claims) => ({ ...claims, picture }) });
        expect(await profileOf(await signIn(account))).include({ avatar_fallback_url: shown });
      }
    });

    it('200: links an account whose email the provider has verified, and ends its password and sessions', async () => {
      const member = await api.signUp();
      const tokens = await signIn(provider.addAccount({ email: member.email }));
      expect(tokens).include({ is_new_user: false }).nested.include({ 'organization.org_id': member.orgId });
      expect(userIdOf(tokens)).equal(member.userId);
      await member.get('/entity/me/profile', 401);
      await login(member.email, member.password, 401);
      await api.anonymous.post('/auth/refresh_tokens', { refresh_token: member.refreshToken }, 401);
      const [entry] = await auditOf(member.userId, 'identity.linked');
      expect(entry).deep.include({ actorId: member.userId, detail: { had_password: true } });
    });

    it('200: creates or links one account for concurrent sign-ins of the same identity', async () => {
      const newcomer = provider.addAccount();
      const known = provider.addAccount({ email: (await api.signUp()).email });
      for (const account of [newcomer, known]) {
        const paths: string[] = [];
        for (let count = 0; count < 6; count += 1) paths.push(await visit(account));
        const all = await Promise.all(paths.map(async (path) => tokenResponse.parse(await come(path, 200))));
        expect(new Set(all.map(userIdOf)).size).equal(1);
        expect(all.filter(({ is_new_user }) => is_new_user)).length(account === newcomer ? 1 : 0);
      }
    });

    it('400: for a state that is unknown, used or expired, and for all but one of concurrent requests', async () => {
      const path = await visitAsNewcomer();
      const requests = Array.from({ length: 6 }, () => api.anonymous.raw(path));
      expect(await statusesOf(requests)).deep.equal([200, 400, 400, 400, 400, 400]);
      for (const used of [path, '/auth/sso/callback?code=a&state=b']) {
        expect(await come(used, 400)).include({ code: 'sign_in_invalid' });
      }
      const late = await visitAsNewcomer();
      await states().update({ expiresAt: new Date(Date.now() - 1_000) });
      await expectRefusal(late, 400, 'sign_in_invalid');
    });

    it('400: when the user denies consent at the provider', async () => {
      const path = await visit(provider.addAccount(), { consents: false });
      expect(path).include('error=access_denied');
      await expectRefusal(path, 400, 'sign_in_denied');
      await expectRefusal(`${await visitAsNewcomer()}&error=access_denied`, 400, 'sign_in_denied');
    });

    it('403: when the provider has not verified the email, also if the email has an account', async () => {
      const { email } = await api.signUp();
      const newcomer = provider.addAccount({ emailVerified: false });
      await expectRefusal(await visit(newcomer), 403, 'email_not_verified');
      await api.anonymous.post('/auth/register', { email: newcomer.email, password }, 201);
      for (const claims of [{ email: null }, { email, emailVerified: false }]) {
        await expectRefusal(await visitAsNewcomer(claims), 403, 'email_not_verified');
      }
      const path = await visitAsNewcomer();
      provider.tamper({ userinfo: (said) => ({ ...said, email_verified: 'false' }) });
      await expectRefusal(path, 403, 'email_not_verified');
    });

    it('403: for a disabled account, found by its identity or by its email', async () => {
      const admin = await api.signUp();
      const [linked, other] = [await aColleague(api, admin), await aColleague(api, admin)];
      const known = provider.addAccount({ email: linked.email });
      await signIn(known);
      for (const { userId } of [linked, other]) await admin.post(`/entity/users/${userId}/disable`, {}, 204);
      await expectRefusal(await visit(known), 403, 'account_disabled');
      await expectRefusal(await visitAsNewcomer({ email: other.email }), 403, 'account_disabled');
      const [refusal] = await auditOf(other.userId, 'session.refused');
      expect(refusal).deep.include({ detail: { reason: 'account_disabled' } });
    });

    it('409: for an email whose account is linked to another user of the provider', async () => {
      const before = provider.addAccount();
      const tokens = await signIn(before);
      const path = await visitAsNewcomer();
      provider.tamper({ userinfo: (claims) => ({ ...claims, email: before.email }) });
      await expectRefusal(path, 409, 'email_taken');
      await clientOf(tokens).get('/entity/me/profile', 200);
      const [refusal] = await auditOf(userIdOf(tokens), 'session.refused');
      expect(refusal).deep.include({ detail: { reason: 'email_taken' } });
      // Several new identities that sign in concurrently with one email.
      const { email } = await api.signUp();
      const paths: string[] = [];
      for (let count = 0; count < 4; count += 1) paths.push(await visitAsNewcomer());
      provider.tamper({ userinfo: (claims) => ({ ...claims, email }) });
      expect(await statusesOf(paths.map((path) => api.anonymous.raw(path)))).deep.equal([200, 409, 409, 409]);
    });

    it('422: when the state is missing, or when both the code and the error are missing', async () => {
      const missing = { 'code=a': 'state', 'state=a': 'code', 'state=&code=a': 'state' };
      for (const [query, path] of Object.entries(missing)) {
        expect(await come(`/auth/sso/callback?${query}`, 422)).nested.property('errors[0].path', path);
      }
    });

    it('501 to 503: when the provider fails; no account is created, and the next sign-in works', async () => {
      const account = provider.addAccount();
      const failures = [
        [501, 'provider_not_configured', { token: { status: 401, body: { error: 'invalid_client' } } }],
        [502, 'provider_response_invalid', { userinfo: { status: 200, body: '{' } }],
        [503, 'provider_unavailable', { token: { status: 500 } }],
        [503, 'provider_unavailable', { userinfo: 'cut' }],
      ] as const;
      for (const [status, code, answers] of failures) {
        const path = await visit(account);
        provider.tamper({ answers });
        const headers = await expectRefusal(path, status, code);
        if (status === 503) expect(Number(headers.get('retry-after'))).above(0);
        provider.tamper({});
      }
      expect(await signIn(account)).include({ is_new_user: true });
    });

    it('200: lets a user who has no password delete the account without one and sign in anew, or set a password', async () => {
      const account = provider.addAccount();
      const first = await signIn(account);
      await login(account.email, password, 401);
      const change = { current_password: password, new_password: 'Battery-staple-3' };
      const unchanged = await clientOf(first).post('/auth/change-password', change, 403);
      const kept = await clientOf(first).delete('/auth/account', 403, { password });
      for (const refused of [unchanged, kept]) expect(refused.body).include({ code: 'wrong_password' });
      await clientOf(first).delete('/auth/account', 204);

      const admin = await api.signUp();
      const { user_id } = Object((await admin.post('/entity/members', { email: account.email, password }, 201)).body);
      const second = await signIn(account);
      expect(userIdOf(second)).equal(user_id).and.not.equal(userIdOf(first));
      await clientOf(second).post('/auth/set-password', { password }, 204);
      expect(await auditOf(user_id, 'password.set')).length(1);
      await login(account.email, password, 200);
      // Sessions stay open.
      await api.anonymous.post('/auth/refresh_tokens', { refresh_token: second.refresh_token }, 200);
      const { body } = await clientOf(second).post('/auth/set-password', { password }, 409);
      expect(body).include({ code: 'password_already_set' });

      await admin.delete(`/entity/members/${user_id}`, 204);
      const third = await signIn(account);
      expect(third).include({ is_new_user: true });
      expect(third.organization.org_id).not.equal(admin.orgId);
    });
  });
});

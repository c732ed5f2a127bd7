import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type TokenResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type ApiClient, statusesOf } from '#test/support/client.ts';
import {
  type IdentityProvider,
  type IdentityProviderAccount,
  startIdentityProvider,
} from '#test/support/identity-provider.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

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
  /** Counts the rows of each table that a sign-in may write. */
  async function traces(): Promise<Record<string, number>> {
    const tables = ['users', 'organizations', 'userIdentities', 'refreshTokenFamilies', 'signInStates'];
    const counts = tables.map(async (table) => [table, (await api.container.db(table)).length]);
    return Object.fromEntries(await Promise.all(counts));
  }
  const userIdOf = ({ access_token }: TokenResponse) => String(decodeJwt(access_token).sub);
  const clientOf = ({ access_token }: TokenResponse): ApiClient => api.anonymous.withToken(access_token);
  const rowOf = async (tokens: TokenResponse) => (await api.container.db('users').where({ id: userIdOf(tokens) }))[0];
  const auditOf = (action: string, target: string) => api.container.db('auditLog').where({ action, target });
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
      expect(await traces()).include({ signInStates: 0 });
      provider.tamper({});
      await authorize({ provider: 'acme' }, 200);
    });

    it('200: returns the URL of the provider, and stores only the hash of its state until that expires', async () => {
      const { db, sso } = api.container;
      const { origin, searchParams } = await addressOf({ provider: 'AcmeOAuth' });
      expect([origin, searchParams.get('redirect_uri')]).deep.equal([provider.issuer, 'https://app.example/signed-in']);
      const state = searchParams.get('state') ?? '';
      const hash = createHash('sha256').update(state).digest('hex');
      const rows = JSON.stringify(await db('signInStates').select(db.raw('to_jsonb(sign_in_states)::text as row')));
      expect([state.length, rows.includes(hash), rows.includes(state)]).deep.equal([43, true, false]);
      await db('signInStates').update({ expiresAt: db.raw("now() - interval '1 second'") });
      await sso.deleteExpired();
      expect(await traces()).include({ signInStates: 0 });
    });

    it('200 or 400: accepts known providers only, and a redirect_uri of an allowed origin and no query', async () => {
      for (const redirect_uri of ['https://other.example/a/b', 'https://app.example/']) {
        expect((await addressOf({ provider: 'acme', redirect_uri })).searchParams.get('redirect_uri')).equal(
          redirect_uri,
        );
      }
      for (const page of [
        'https://evil.example/signed-in',
        'https://app.example/?next=/',
        'https://app.example/#here',
      ]) {
        const fields = { provider: 'acme', redirect_uri: page };
        expect(await authorize(fields, 400), page).include({ code: 'redirect_not_allowed' });
      }
      for (const name of ['google', 'acme ', 'acme2']) {
        expect(await authorize({ provider: name }, 400)).include({ code: 'unsupported_provider' });
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

    /** Sends a callback that is refused: it uses its state up and stores nothing. */
    async function expectRefusal(path: string, status: number, code: string): Promise<Headers> {
      const { signInStates = 0, ...before } = await traces();
      const { body, headers } = await api.anonymous.get(path, status);
      expect(body).include({ code });
      expect(await traces()).deep.equal({ ...before, signInStates: signInStates - 1 });
      return headers;
    }
    const visitAsNewcomer = (fields = {}) => visit(provider.addAccount(fields));

    it('200: creates an account and an organization for a new user, with the names from the provider', async () => {
      const person = { givenName: ' Ada ', familyName: 'Lovelace', picture: 'https://pictures.example/ada.png' };
      const email = `Ada-${process.pid}@Example.com`;
      const response = await api.anonymous.get(await visitAsNewcomer({ ...person, email }), 200);
      expect(response.headers.get('cache-control')).equal('no-store');
      const tokens = tokenResponse.parse(response.body);
      expect(tokens).include({ is_new_user: true, needs_profile_completion: false });
      expect(tokens.organization).include({ name: "Ada Lovelace's organization", tier: 'free', is_org_admin: true });
      const names = { first_name: 'Ada', last_name: 'Lovelace', display_name: 'Ada Lovelace' };
      const profile = { email: email.toLowerCase(), ...names, avatar_fallback_url: person.picture };
      const { body } = await clientOf(tokens).get('/entity/me/profile', 200);
      expect(body).include({ ...profile, has_password: false });
      expect((await clientOf(tokens).get('/folders', 200)).body).length(2);
      expect(await auditOf('account.registered', userIdOf(tokens))).length(1);
    });

    it('200: signs a known identity in to its account, even if its email has changed', async () => {
      const account = provider.addAccount();
      const first = await signIn(account);
      provider.tamper({ userinfo: (claims) => ({ ...claims, email: 'other@example.com', email_verified: false }) });
      const second = await signIn(account);
      expect(second).include({ is_new_user: false });
      expect(userIdOf(second)).equal(userIdOf(first));
      expect(await auditOf('session.opened', String(decodeJwt(second.access_token).sid))).length(1);
      await api.anonymous.post('/auth/refresh_tokens', { refresh_token: first.refresh_token }, 200);
    });

    it('200 or 401: accepts a missing iss parameter, and rejects the iss of another provider', async () => {
      const visitWith = async (iss: string) => (await visitAsNewcomer()).replace(/&iss=[^&]*/, iss);
      await come(await visitWith(''), 200);
      await expectRefusal(await visitWith('&iss=https://elsewhere.example'), 401, 'identity_not_verified');
      const reasons = await api.container.db('auditLog').where({ action: 'session.refused' }).pluck('detail');
      expect(reasons).deep.include({ reason: 'identity_not_verified' });
    });

    it('200: ignores unsafe names and picture URLs, and updates the picture at each sign-in', async () => {
      const odd = { givenName: 'a\u202eb', familyName: 'x'.repeat(201), picture: 'javascript:alert(1)' };
      const account = provider.addAccount(odd);
      const tokens = await signIn(account);
      expect(tokens).include({ is_new_user: true, needs_profile_completion: true });
      expect(await rowOf(tokens)).include({ firstName: null, lastName: null, avatarUrl: null });
      const pictures = { 'https://pictures.example/a.png': 'https://pictures.example/a.png', 'http://a.example': null };
      for (const [picture, avatarUrl] of Object.entries(pictures)) {
        provider.tamper({ userinfo: (claims) => ({ ...claims, picture }) });
        expect(await rowOf(await signIn(account))).include({ avatarUrl });
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
      const [entry] = await auditOf('identity.linked', member.userId);
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
      expect(await statusesOf(Array.from({ length: 6 }, () => api.anonymous.raw(path)))).deep.equal([
        200, 400, 400, 400, 400, 400,
      ]);
      for (const used of [path, '/auth/sso/callback?code=a&state=b']) {
        expect(await come(used, 400)).include({ code: 'sign_in_invalid' });
      }
      const late = await visitAsNewcomer();
      await api.container.db('signInStates').update({ expiresAt: new Date(Date.now() - 1_000) });
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
      for (const claims of [{ emailVerified: false }, { email: null }, { email, emailVerified: false }]) {
        await expectRefusal(await visitAsNewcomer(claims), 403, 'email_not_verified');
      }
      const path = await visitAsNewcomer();
      provider.tamper({ userinfo: (said) => ({ ...said, email_verified: 'false' }) });
      await expectRefusal(path, 403, 'email_not_verified');
    });

    it('403: for a disabled account, found by its identity or by its email', async () => {
      const known = provider.addAccount();
      const member = await api.signUp();
      const ids = [userIdOf(await signIn(known)), member.userId];
      await api.container.db('users').whereIn('id', ids).update({ disabledAt: new Date() });
      await expectRefusal(await visit(known), 403, 'account_disabled');
      await expectRefusal(await visitAsNewcomer({ email: member.email }), 403, 'account_disabled');
      const [refusal] = await auditOf('session.refused', member.userId);
      expect(refusal).deep.include({ detail: { reason: 'account_disabled' } });
    });

    it('409: for an email whose account is linked to another user of the provider', async () => {
      const before = provider.addAccount();
      const tokens = await signIn(before);
      const path = await visitAsNewcomer();
      provider.tamper({ userinfo: (claims) => ({ ...claims, email: before.email }) });
      await expectRefusal(path, 409, 'email_taken');
      await clientOf(tokens).get('/entity/me/profile', 200);
      const [refusal] = await auditOf('session.refused', userIdOf(tokens));
      expect(refusal).deep.include({ orgId: tokens.organization.org_id, detail: { reason: 'email_taken' } });
      // Several new identities that sign in concurrently with one email.
      const { email, userId } = await api.signUp();
      const paths: string[] = [];
      for (let count = 0; count < 4; count += 1) paths.push(await visitAsNewcomer());
      provider.tamper({ userinfo: (claims) => ({ ...claims, email }) });
      expect(await statusesOf(paths.map((path) => api.anonymous.raw(path)))).deep.equal([200, 409, 409, 409]);
      expect(await api.container.db('userIdentities').where({ userId })).length(1);
    });

    it('422: when the state is missing, or both the code and the error', async () => {
      const missing = { 'code=a': 'state', 'state=a': 'code', 'state=&code=a': 'state' };
      for (const [query, path] of Object.entries(missing)) {
        expect(await come(`/auth/sso/callback?${query}`, 422)).nested.property('errors[0].path', path);
      }
    });

    it('501 to 503: when the provider fails, without partial changes; the next sign-in works', async () => {
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
  });

  describe('an account without a password', () => {
    it('can be deleted by its owner or an admin; a later sign-in creates or links another account', async () => {
      const account = provider.addAccount();
      const first = await signIn(account);
      await login(account.email, password, 401);
      await clientOf(first).delete('/auth/account', 204);
      const admin = await api.signUp();
      const { user_id } = Object((await admin.post('/entity/members', { email: account.email, password }, 201)).body);
      const second = await signIn(account);
      expect(userIdOf(second)).equal(user_id).and.not.equal(userIdOf(first));
      await admin.delete(`/entity/members/${user_id}`, 204);
      const third = await signIn(account);
      expect(third).include({ is_new_user: true });
      expect(third.organization.org_id).not.equal(admin.orgId);
    });
  });
});

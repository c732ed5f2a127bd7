import { expect } from 'chai';
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose';
import { keySetResponse, sessionListSchema, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { until } from '#test/support/until.ts';

describe('sessions:', () => {
  let api: Stack;
  let ada: Member;
  beforeEach(async () => {
    api = await stack();
    ada = await api.signUp();
  });

  type SignedIn = ApiClient & { sessionId: string; refreshToken: string };

  async function signIn(userAgent: string): Promise<SignedIn> {
    const login = { username: ada.email, password: ada.password };
    const { body } = await api.anonymous.post('/auth/login', login, 200, { 'user-agent': userAgent });
    const { access_token, refresh_token } = tokenResponse.parse(body);
    const sessionId = String(decodeJwt(access_token).sid);
    return { ...api.anonymous.withToken(access_token), sessionId, refreshToken: refresh_token };
  }

  const page = async (client: ApiClient, query = '') =>
    sessionListSchema.parse((await client.get(`/auth/sessions${query}`, 200)).body);
  const idsOf = async (client: ApiClient) => (await page(client)).items.map(({ id }) => id);
  const isOver = (client: ApiClient) =>
    until('its access token is refused', async () => (await client.raw('/folders')).status === 401);
  const refresh = async ({ refreshToken }: { refreshToken: string }, status: number) =>
    Object((await api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, status)).body);
  const rowsOf = (table: string, where: object) => api.container.db(table).where(where);
  const families = () => rowsOf('refresh_token_families', { userId: ada.userId });
  /** Moves a timestamp of the refresh tokens of all sessions of the caller into the past. */
  const age = (column: 'used_at' | 'expires_at', interval: string) =>
    rowsOf('refresh_tokens', {})
      .whereIn('family_id', families().select('id'))
      .update(column, api.container.db.raw(`${column} - ?::interval`, [interval]));
  const logOut = (refresh_token: string) => api.anonymous.post('/auth/logout', { refresh_token }, 204);

  it('a request without a valid access token gets 401 with a WWW-Authenticate header', async () => {
    const challengeOf = async (client: ApiClient) =>
      (await client.get('/folders', 401)).headers.get('www-authenticate');
    expect(await challengeOf(api.anonymous)).equal('Bearer');
    expect(await challengeOf(api.anonymous.withToken('nonsense'))).contain('invalid_token');
  });

  const deleted = { deletedAt: new Date(), eraseDueAt: new Date('2100-01-01') };
  // Written to the database directly: the API has to notice without being told.
  const ends: Record<string, (member: Member) => PromiseLike<unknown>> = {
    'its user is disabled': ({ userId: id }) => rowsOf('users', { id }).update({ disabledAt: new Date() }),
    'its user is deleted': ({ userId: id }) => rowsOf('users', { id }).update(deleted),
    'its organization is deleted': ({ orgId: id }) => rowsOf('organizations', { id }).update(deleted),
    'all access tokens of its session are revoked': () => families().update({ cutOffAt: new Date() }),
    'its session row is deleted': () => families().delete(),
  };
  for (const [what, end] of Object.entries(ends)) {
    it(`an access token stops working within seconds once ${what}`, async () => {
      await ada.get('/folders', 200);
      await end(ada);
      await isOver(ada);
    });
  }

  it('an access token can be verified by other services with a library and the published keys', async () => {
    const path = '/.well-known/jwks.json';
    const { body, headers } = await api.anonymous.get(path, 200);
    expect(headers.get('cache-control')).contain('max-age');
    expect(keySetResponse.parse(body).keys).length(1);
    const { access_token } = await refresh(ada, 200);
    const keys = createRemoteJWKSet(new URL(`${api.baseUrl}${path}`));
    const { payload } = await jwtVerify(access_token, keys, { typ: 'at+jwt', algorithms: ['RS256'] });
    expect(payload.sub).equal(ada.userId);
  });

  it('an access token stays valid when the refresh token of its session is revoked or expired', async () => {
    await families().update({ revokedAt: new Date(), expiresAt: new Date() });
    await ada.get('/folders', 200);
  });

  describe('POST /auth/refresh_tokens', () => {
    const next = async (refreshToken: string) => {
      const { refresh_token, ...rest } = tokenResponse.parse(await refresh({ refreshToken }, 200));
      return { ...rest, refreshToken: refresh_token };
    };
    const refuse = async (refreshToken: string, code: string) =>
      expect(await refresh({ refreshToken }, 401)).include({ code });
    it('200: returns a new pair of tokens', async () => {
      const { refreshToken, access_token, is_new_user } = await next(ada.refreshToken);
      expect(refreshToken).not.equal(ada.refreshToken);
      expect(is_new_user).equal(false);
      await api.anonymous.withToken(access_token).get('/folders', 200);
      await next(refreshToken);
    });

    it('401: for a refresh token that was used before; ends the session if that was over ten seconds ago', async () => {
      const second = await next(ada.refreshToken);
      await refuse(ada.refreshToken, 'refresh_reused');
      const third = await next(second.refreshToken);
      await age('used_at', '11 seconds');
      await refuse(second.refreshToken, 'refresh_reused');
      await refuse(third.refreshToken, 'refresh_invalid');
      // The entry belongs to the organization, so that its admins see it.
      const [entry] = await api.container.audit.list({ orgId: ada.orgId }, 1);
      expect(entry).include({ actorId: ada.userId, action: 'session.reuse_detected' });
    });

    it('401: for an unknown refresh token, and for one that was not used for seven days', async () => {
      await refuse('unknown', 'refresh_invalid');
      await age('expires_at', '7 days');
      await refuse(ada.refreshToken, 'refresh_invalid');
    });

    it('401: for a session past its maximum age, also once the session is deleted a day later', async () => {
      const { sessions } = api.container;
      await sessions.deleteExpired();
      expect(await families()).length(1);
      await families().update({ expiresAt: new Date() });
      await refuse(ada.refreshToken, 'refresh_invalid');
      await families().update({ expiresAt: new Date(Date.now() - 2 * 24 * 60 * 60_000) });
      await sessions.deleteExpired();
      expect(await families()).length(0);
      await refuse(ada.refreshToken, 'refresh_invalid');
    });
  });

  it('GET /auth/sessions lists the open sessions of the caller with device and last refresh, in pages', async () => {
    await age('expires_at', '7 days');
    const [old, phone] = [await signIn('Old'), await signIn('Phone/1.0 (x)')];
    const { items, next_cursor } = await page(phone);
    expect(next_cursor).equal(null);
    expect(items.map(({ user_agent, current }) => [user_agent, current])).deep.equal([
      ['Phone/1.0 (x)', true],
      ['Old', false],
    ]);
    const { id, created_at, last_used_at, expires_at } = Object(items[0]);
    expect(id).equal(phone.sessionId);
    expect(Date.parse(last_used_at)).within(Date.parse(created_at), Date.parse(created_at) + 5_000);
    expect(Date.parse(expires_at)).above(Date.now() + 6 * 24 * 60 * 60_000);
    await refresh(old, 200);
    const [before, after] = [items[1], (await page(phone)).items[1]];
    expect(Date.parse(after?.last_used_at ?? '')).above(Date.parse(before?.last_used_at ?? ''));
    const first = await page(phone, '?limit=1');
    const second = await page(phone, `?limit=1&cursor=${first.next_cursor}`);
    expect([...first.items, ...second.items].map((listed) => listed.id)).deep.equal(await idsOf(phone));
    expect(second.next_cursor).equal(null);
  });

  it('DELETE /auth/sessions/{session_id} ends a session with its tokens, and DELETE /auth/sessions all others', async () => {
    const [phone, tablet, bob] = [await signIn('Phone'), await signIn('Tablet'), await api.signUp()];
    const path = `/auth/sessions/${phone.sessionId}`;
    expect((await bob.delete(path, 404)).body).include({ code: 'session_not_found' });
    await phone.get('/folders', 200);
    await ada.delete(path, 204);
    await isOver(phone);
    await refresh(phone, 401);
    expect((await auditEntries(api, phone.sessionId)).at(-1)).include({ action: 'session.ended', actorId: ada.userId });
    await ada.delete(path, 404);
    await tablet.delete(`/auth/sessions/${tablet.sessionId}`, 204);
    await isOver(tablet);
    expect(await idsOf(ada)).length(1);

    const [watch, last] = [await signIn('Watch'), await signIn('Laptop')];
    await last.delete('/auth/sessions', 204);
    expect((await auditEntries(api, watch.sessionId)).at(-1)).include({ action: 'session.ended', actorId: ada.userId });
    await isOver(ada);
    await refresh(ada, 401);
    await bob.get('/folders', 200);
    expect(await idsOf(last)).deep.equal([last.sessionId]);
    await refresh(last, 200);
  });

  it('POST /auth/logout ends the session of the refresh token, and accepts ended and unknown tokens', async () => {
    const other = await signIn('Phone');
    await ada.get('/folders', 200);
    await logOut(ada.refreshToken);
    expect(await refresh(ada, 401)).include({ code: 'refresh_invalid' });
    await isOver(ada);
    await other.get('/folders', 200);
    for (const token of [ada.refreshToken, 'unknown']) await logOut(token);
    expect(await api.container.audit.list({ orgId: ada.orgId, action: 'session.closed' }, 2)).length(1);
  });
});

import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Knex } from 'knex';
import { sessionListSchema, tokenResponse } from '#src/modules/auth/auth.schema.ts';
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
  const families = () => api.container.db('refresh_token_families').where({ userId: ada.userId });
  const logOut = (refresh_token: string) => api.anonymous.post('/auth/logout', { refresh_token }, 204);

  it('a request without a valid access token gets 401 with a WWW-Authenticate header', async () => {
    const challengeOf = async (client: ApiClient) =>
      (await client.get('/folders', 401)).headers.get('www-authenticate');
    expect(await challengeOf(api.anonymous)).equal('Bearer');
    expect(await challengeOf(api.anonymous.withToken('nonsense'))).contain('invalid_token');
  });

  const deleted = { deletedAt: new Date(), eraseDueAt: new Date('2100-01-01') };
  // Written to the database directly: the API has to notice without being told.
  const ends: Record<string, (db: Knex, member: Member) => Promise<unknown>> = {
    'its user is disabled': (db, { userId }) => db('users').where('id', userId).update({ disabledAt: new Date() }),
    'its user is deleted': (db, { userId }) => db('users').where('id', userId).update(deleted),
    'its organization is deleted': (db, { orgId }) => db('organizations').where('id', orgId).update(deleted),
    'its session is cut off': () => families().update({ cutOffAt: new Date() }),
    'its session row is deleted': () => families().delete(),
  };
  for (const [what, end] of Object.entries(ends)) {
    it(`an access token stops working within seconds once ${what}`, async () => {
      await ada.get('/folders', 200);
      await end(api.container.db, ada);
      await isOver(ada);
    });
  }

  it('an access token stays valid when the refresh token of its session is revoked or expired', async () => {
    await families().update({ revokedAt: new Date(), expiresAt: new Date() });
    await ada.get('/folders', 200);
  });

  describe('POST /auth/refresh_tokens', () => {
    const next = async (refreshToken: string) => {
      const { refresh_token, ...rest } = tokenResponse.parse(await refresh({ refreshToken }, 200));
      return { ...rest, refreshToken: refresh_token };
    };
    const refuse = async (refreshToken: string, code: string, status = 401) =>
      expect(await refresh({ refreshToken }, status)).include({ code });
    /** Moves a timestamp of the tokens into the past. */
    const age = (column: 'used_at' | 'expires_at', interval: string) =>
      api.container.db.raw(
        `update refresh_tokens t set ${column} = t.${column} - ?::interval
         from refresh_token_families f where f.id = t.family_id and f.user_id = ?`,
        [interval, ada.userId],
      );

    it('200: returns a new pair of tokens, neither of which is stored in plain text', async () => {
      const { refreshToken, access_token, is_new_user } = await next(ada.refreshToken);
      expect(refreshToken).not.equal(ada.refreshToken);
      expect(is_new_user).equal(false);
      await api.anonymous.withToken(access_token).get('/folders', 200);
      await next(refreshToken);
      expect(JSON.stringify(await api.container.db('refresh_tokens'))).not.contain(refreshToken);
    });

    it('401: for the last used refresh token; ends the session if that use was over ten seconds ago', async () => {
      const second = await next(ada.refreshToken);
      await refuse(ada.refreshToken, 'refresh_reused');
      const third = await next(second.refreshToken);
      await age('used_at', '11 seconds');
      await refuse(second.refreshToken, 'refresh_reused');
      await refuse(third.refreshToken, 'refresh_invalid');
    });

    it('401: for a refresh token used before the last one, and ends the session at once', async () => {
      const newest = await next((await next(ada.refreshToken)).refreshToken);
      await refuse(ada.refreshToken, 'refresh_reused');
      await refuse(newest.refreshToken, 'refresh_invalid');
      const { orgId, userId } = ada;
      // The entry belongs to the organization, so that its admins see it.
      const audit = await api.container.db('audit_log').where({ orgId, actorId: userId }).pluck('action');
      expect(audit).include('session.reuse_detected');
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

    it('403: for a disabled account', async () => {
      await api.container.db('users').where({ id: ada.userId }).update({ disabledAt: new Date() });
      await refuse(ada.refreshToken, 'account_disabled', 403);
    });
  });

  it('GET /auth/sessions lists the open sessions of the caller with device and last refresh, in pages', async () => {
    const [old, gone, phone] = [await signIn('Old'), await signIn('Gone'), await signIn('Phone/1.0 (x)')];
    const tokensOf = ({ sessionId: familyId }: SignedIn) => api.container.db('refresh_tokens').where({ familyId });
    await tokensOf(old).update({ createdAt: new Date(Date.now() - 3_600_000) });
    await tokensOf(gone).update({ expiresAt: new Date() });
    const { items, next_cursor } = await page(phone);
    expect(next_cursor).equal(null);
    expect(items.map(({ user_agent, current }) => [user_agent, current])).deep.equal([
      ['Phone/1.0 (x)', true],
      ['Old', false],
      ['node', false],
    ]);
    const { id, created_at, last_used_at, expires_at } = Object(items[0]);
    expect(id).equal(phone.sessionId);
    expect(Date.parse(last_used_at)).within(Date.parse(created_at), Date.parse(created_at) + 5_000);
    expect(Date.parse(expires_at)).above(Date.now() + 6 * 24 * 60 * 60_000);
    await refresh(old, 200);
    const [before, after] = [items[1], (await page(phone)).items[1]];
    expect(Date.parse(after?.last_used_at ?? '')).above(Date.parse(before?.last_used_at ?? '') + 3_000_000);
    const first = await page(phone, '?limit=2');
    const second = await page(phone, `?limit=2&cursor=${first.next_cursor}`);
    expect([...first.items, ...second.items].map((listed) => listed.id)).deep.equal(await idsOf(phone));
    expect(second.next_cursor).equal(null);
  });

  it('DELETE /auth/sessions/{session_id} ends a session with all its tokens, also the current session', async () => {
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
  });

  it('DELETE /auth/sessions ends all sessions of the caller except the current session', async () => {
    const bob = await api.signUp();
    const [phone, tablet] = [await signIn('Phone'), await signIn('Tablet')];
    await phone.delete('/auth/sessions', 204);
    for (const client of [ada, tablet]) await isOver(client);
    await refresh(tablet, 401);
    await bob.get('/folders', 200);
    expect(await idsOf(phone)).deep.equal([phone.sessionId]);
    expect((await auditEntries(api, tablet.sessionId)).at(-1)).include({ action: 'session.ended' });
    await refresh(phone, 200);
  });

  it('POST /auth/logout ends the session of the refresh token, and accepts ended and unknown tokens', async () => {
    const other = await signIn('Phone');
    await ada.get('/folders', 200);
    await logOut(ada.refreshToken);
    expect(await refresh(ada, 401)).include({ code: 'refresh_invalid' });
    await isOver(ada);
    await other.get('/folders', 200);
    for (const token of [ada.refreshToken, 'unknown']) await logOut(token);
    const actions: string[] = await api.container.db('audit_log').where({ actorId: ada.userId }).pluck('action');
    expect(actions.filter((action) => action === 'session.closed')).length(1);
  });
});

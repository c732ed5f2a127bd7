import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

let api: Stack;
let ada: Member;
function signUpBeforeEach(): void {
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    ada = await api.signUp();
  });
}

type SignedIn = ApiClient & { sessionId: string; refreshToken: string };

async function signIn(userAgent: string): Promise<SignedIn> {
  const login = { username: ada.email, password: ada.password };
  const { body } = await api.anonymous.post('/auth/login', login, 200, { 'user-agent': userAgent });
  const { access_token, refresh_token } = tokenResponse.parse(body);
  const sessionId = String(decodeJwt(access_token).sid);
  return { ...api.anonymous.withToken(access_token), sessionId, refreshToken: refresh_token };
}

const list = async (client: ApiClient, query = '') => Object((await client.get(`/auth/sessions${query}`, 200)).body);
const idsOf = async (client: ApiClient) => (await list(client)).items.map(({ id }: { id: string }) => id);
const isOver = (client: ApiClient) =>
  until('its access token is refused', async () => (await client.raw('/folders')).status === 401);
const refresh = ({ refreshToken }: SignedIn, status: number) =>
  api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, status);

describe('GET /auth/sessions', () => {
  signUpBeforeEach();

  it('200: lists the open sessions of the caller, newest first, with their devices', async () => {
    await api.signUp();
    const phone = await signIn('Phone/1.0 (x)');
    const { items, next_cursor } = await list(phone);
    expect(next_cursor).equal(null);
    expect(
      items.map(({ user_agent, current }: { user_agent: string; current: boolean }) => [user_agent, current]),
    ).deep.equal([
      ['Phone/1.0 (x)', true],
      ['node', false],
    ]);
    expect(items[0].id).equal(phone.sessionId);
    const { created_at, last_used_at, expires_at } = items[0];
    expect(Date.parse(last_used_at)).within(Date.parse(created_at), Date.parse(created_at) + 5_000);
    expect(Date.parse(expires_at)).above(Date.now() + 6 * 24 * 60 * 60_000);
  });

  it('200: shows the last refresh, omits ended and expired sessions, and pages', async () => {
    const [old, gone] = [await signIn('Old'), await signIn('Gone')];
    const { db } = api.container;
    await db('refresh_tokens')
      .where({ familyId: old.sessionId })
      .update({ createdAt: new Date(Date.now() - 3_600_000) });
    await db('refresh_tokens').where({ familyId: gone.sessionId }).update({ expiresAt: new Date() });
    const before = (await list(ada)).items;
    expect(before.map(({ user_agent }: { user_agent: string }) => user_agent)).deep.equal(['Old', 'node']);
    await refresh(old, 200);
    const [after] = (await list(ada)).items;
    expect(Date.parse(after.last_used_at)).above(Date.parse(before[0].last_used_at) + 3_000_000);
    const first = await list(ada, '?limit=1');
    const second = await list(ada, `?limit=1&cursor=${first.next_cursor}`);
    expect([...first.items, ...second.items].map(({ id }: { id: string }) => id)).deep.equal(await idsOf(ada));
    expect(second.next_cursor).equal(null);
  });

  it('400: for a damaged cursor', async () => {
    await ada.get('/auth/sessions?cursor=x', 400);
  });

  it('401: without a token', async () => {
    await api.anonymous.get('/auth/sessions', 401);
  });
});

describe('DELETE /auth/sessions/{session_id}', () => {
  signUpBeforeEach();

  it('204: ends the session with its refresh and access tokens, and records it', async () => {
    const phone = await signIn('Phone');
    await phone.get('/folders', 200);
    await ada.delete(`/auth/sessions/${phone.sessionId}`, 204);
    await isOver(phone);
    await refresh(phone, 401);
    expect(await idsOf(ada)).length(1);
    const entries = await auditEntries(api, phone.sessionId);
    expect(entries.at(-1)).include({ action: 'session.ended', actorId: ada.userId });
    await ada.delete(`/auth/sessions/${phone.sessionId}`, 404);
  });

  it('204: ends the session of the request too', async () => {
    const phone = await signIn('Phone');
    await phone.delete(`/auth/sessions/${phone.sessionId}`, 204);
    await isOver(phone);
    await ada.get('/folders', 200);
  });

  it('401: without a token', async () => {
    await api.anonymous.delete(`/auth/sessions/${crypto.randomUUID()}`, 401);
  });

  it('404: for a session of another user, and for an invalid id', async () => {
    const [bob, phone] = [await api.signUp(), await signIn('Phone')];
    for (const id of [phone.sessionId, crypto.randomUUID(), 'x']) {
      expect((await bob.delete(`/auth/sessions/${id}`, 404)).body).include({ code: 'session_not_found' });
    }
    await phone.get('/folders', 200);
  });
});

describe('DELETE /auth/sessions', () => {
  signUpBeforeEach();

  it('204: ends all sessions of the caller except the one of the request', async () => {
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

  it('401: without a token', async () => {
    await api.anonymous.delete('/auth/sessions', 401);
  });
});

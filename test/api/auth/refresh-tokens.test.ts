import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /auth/refresh_tokens', () => {
  let api: Stack;
  let member: Member;
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    member = await api.signUp();
  });

  const refresh = async (token: string) => {
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: token }, 200);
    return tokenResponse.parse(body);
  };
  const refuse = async (token: string, code: string) => {
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: token }, 401);
    expect(body).to.include({ code });
  };
  /** Moves a timestamp of the member's tokens into the past. */
  const age = (column: 'used_at' | 'expires_at', interval: string) =>
    api.container.db.raw(
      `update refresh_tokens t set ${column} = t.${column} - ?::interval
       from refresh_token_families f where f.id = t.family_id and f.user_id = ?`,
      [interval, member.userId],
    );

  it('200 returns a new pair of tokens', async () => {
    const next = await refresh(member.refreshToken);
    expect(next.refresh_token).not.to.equal(member.refreshToken);
    expect(next.is_new_user).to.equal(false);
    await api.anonymous.withToken(next.access_token).get('/folders', 200);
    await refresh(next.refresh_token);
  });

  it('200 for exactly one of many concurrent requests, and keeps the session', async () => {
    const body = JSON.stringify({ refresh_token: member.refreshToken });
    const headers = { 'content-type': 'application/json' };
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => api.anonymous.raw('/auth/refresh_tokens', { method: 'POST', headers, body })),
    );
    const [winner, ...others] = responses.filter(({ status }) => status === 200);
    expect(others).to.have.length(0);
    await refresh(tokenResponse.parse(await winner?.json()).refresh_token);
  });

  it('401 for the token used last within ten seconds, without revoking the session', async () => {
    const next = await refresh(member.refreshToken);
    await refuse(member.refreshToken, 'refresh_reused');
    await refresh(next.refresh_token);
  });

  it('401 for the token used last after more than ten seconds, and revokes the session', async () => {
    const next = await refresh(member.refreshToken);
    await age('used_at', '11 seconds');
    await refuse(member.refreshToken, 'refresh_reused');
    await refuse(next.refresh_token, 'refresh_invalid');
  });

  it('401 for an older token, and revokes the session at once', async () => {
    const newest = await refresh((await refresh(member.refreshToken)).refresh_token);
    await refuse(member.refreshToken, 'refresh_reused');
    await refuse(newest.refresh_token, 'refresh_invalid');
    const { orgId, userId } = member;
    // The entry belongs to the organization, so that its admins see it.
    const audit = await api.container.db('audit_log').where({ orgId, actorId: userId }).pluck('action');
    expect(audit).to.include('session.reuse_detected');
  });

  it('401 for a token that was not used for seven days', async () => {
    await age('expires_at', '7 days');
    await refuse(member.refreshToken, 'refresh_invalid');
  });

  it('401 for a session past its maximum age, even if it was in use', async () => {
    const { db } = api.container;
    await db('refresh_token_families').where({ userId: member.userId }).update({ expiresAt: db.fn.now() });
    await refuse(member.refreshToken, 'refresh_invalid');
  });

  it('401 for a session that was deleted after it expired, with all its tokens', async () => {
    const { db, sessions } = api.container;
    const families = () => db('refresh_token_families').where({ userId: member.userId });
    await sessions.deleteExpired();
    expect(await families()).to.have.length(1);
    await families().update({ expiresAt: new Date(Date.now() - 2 * 24 * 60 * 60_000) });
    await sessions.deleteExpired();
    expect(await families()).to.have.length(0);
    await refuse(member.refreshToken, 'refresh_invalid');
  });

  it('401 for an unknown token', () => refuse('unknown', 'refresh_invalid'));

  it('403 for a disabled account', async () => {
    const admin = await api.signUp();
    const colleague = await aColleague(api, admin);
    await admin.post(`/entity/users/${colleague.userId}/disable`, undefined, 204);
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: colleague.refreshToken }, 403);
    expect(body).to.include({ code: 'account_disabled' });
  });

  it('422 without a token', async () => {
    await api.anonymous.post('/auth/refresh_tokens', {}, 422);
  });

  it('stores no token in plain text', async () => {
    const stored = await api.container.db('refresh_tokens').select();
    expect(JSON.stringify(stored)).not.to.contain(member.refreshToken);
  });
});

import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { oneAfterTheOther } from '#test/support/one-after-the-other.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('DELETE /entity/org', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  it('204: ends the accounts and sessions of all members, and frees their emails', async () => {
    await ada.delete('/entity/org', 204);
    for (const { get, email, password, refreshToken } of [ada, grace]) {
      await get('/folders', 401);
      await shared.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
      await shared.anonymous.post('/auth/login', { username: email, password }, 401);
      await shared.anonymous.post('/auth/register', { email, password }, 201);
    }
    expect((await auditEntries(shared, ada.orgId)).at(-1)).deep.include({
      actorId: ada.userId,
      action: 'organization.deleted',
      detail: { members: 2 },
    });
  });

  it('204: also deletes the accounts of disabled members', async () => {
    await ada.post(`/entity/users/${grace.userId}/disable`, {}, 204);
    await ada.delete('/entity/org', 204);
    await shared.anonymous.post('/auth/register', { email: grace.email, password: grace.password }, 201);
  });

  it('204: for one of several concurrent requests', async () => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => ada.raw('/entity/org', { method: 'DELETE' })));
    const statuses = replies.map(({ status }) => status).sort();
    expect(statuses).deep.equal([204, ...Array.from({ length: 7 }, () => 401)]);
  });

  it('204: rejects a member who is being created concurrently', async () => {
    const email = freshEmail();
    const body = JSON.stringify({ email, password: ada.password });
    const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    const statuses = await oneAfterTheOther(shared, ada.orgId, [
      () => ada.raw('/entity/org', { method: 'DELETE' }),
      () => ada.raw('/entity/members', request),
    ]);
    expect(statuses).deep.equal([204, 401]);
    await shared.anonymous.post('/auth/register', { email, password: ada.password }, 201);
  });

  it('204: deletes nothing of other organizations', async () => {
    const eve = await shared.signUp('Eve');
    await ada.delete('/entity/org', 204);
    await eve.get('/folders', 200);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete('/entity/org', 401);
  });

  it('403: for a member who is not an org admin', async () => {
    await grace.delete('/entity/org', 403);
    await ada.get('/folders', 200);
  });
});

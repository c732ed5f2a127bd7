import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectAdmins } from '#test/support/remaining-admins.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/auth/account';

describe('DELETE /auth/account', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const remove = (member: Member, status: number, password = member.password) =>
    member.delete(path, status, { password });

  it('204: ends the account and all its sessions, and frees the email at once', async () => {
    const login = { username: grace.email, password: grace.password };
    const { access_token, refresh_token } = Object((await shared.anonymous.post('/auth/login', login, 200)).body);
    await remove(grace, 204);
    await grace.get('/folders', 401);
    await shared.anonymous.withToken(access_token).get('/folders', 401);
    await shared.anonymous.post('/auth/refresh_tokens', { refresh_token }, 401);
    await shared.anonymous.post('/auth/login', login, 401);
    await shared.anonymous.post('/auth/register', { email: grace.email, password: grace.password }, 201);
    const entries = await auditEntries(shared, grace.userId);
    expect(entries.at(-1)).deep.include({ actorId: grace.userId, action: 'account.deleted' });
    await ada.get('/folders', 200);
  });

  it('204: requires no password of an account without one', async () => {
    await shared.container.db('users').where({ id: grace.userId }).update({ passwordHash: null });
    await grace.delete(path, 204);
    await grace.get('/folders', 401);
  });

  it('204: deletes the organization with its only member', async () => {
    const eve = await shared.signUp('Eve');
    await remove(eve, 204);
    await eve.get('/folders', 401);
    const organization = await shared.container.db('organizations').where({ id: eve.orgId }).first();
    expect(organization.deletedAt).instanceOf(Date);
    expect((await auditEntries(shared, eve.orgId)).at(-1)).deep.include({
      action: 'organization.deleted',
      detail: { members: 1 },
    });
  });

  it('204: for one of two concurrent requests, and deletes no other account or organization', async () => {
    const body = JSON.stringify({ password: grace.password });
    const request = { method: 'DELETE', headers: { 'content-type': 'application/json' }, body };
    const replies = await Promise.all([grace.raw(path, request), grace.raw(path, request)]);
    expect(replies.map(({ status }) => status).sort()).deep.equal([204, 401]);
    await ada.get('/folders', 200);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(path, 401);
  });

  it('403: with a wrong password, and with any password for an account without one', async () => {
    expect((await remove(grace, 403, 'Wrong-horse-1')).body).include({ code: 'wrong_password' });
    await shared.container.db('users').where({ id: grace.userId }).update({ passwordHash: null });
    expect((await remove(grace, 403)).body).include({ code: 'wrong_password' });
    await grace.get('/folders', 200);
  });

  it('409: for the last admin of an organization with other members, disabled ones too', async () => {
    await ada.post(`/entity/users/${grace.userId}/disable`, {}, 204);
    expect((await remove(ada, 409)).body).include({ code: 'last_org_admin' });
    await ada.get('/folders', 200);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await remove(ada, 204);
  });

  it('409: for the last of several admins who delete their accounts concurrently', async () => {
    const others = await Promise.all(
      Array.from({ length: 7 }, () => aColleague(shared, ada, 'Admin', { is_admin: true })),
    );
    const replies = await Promise.all(
      [ada, ...others].map((member) =>
        member.raw(path, {
          method: 'DELETE',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ password: member.password }),
        }),
      ),
    );
    const statuses = replies.map(({ status }) => status).sort();
    expect(statuses).deep.equal([...Array.from({ length: 7 }, () => 204), 409]);
    await expectAdmins(shared, ada.orgId);
  });

  it('422: without the password of an account that has one, or with another field', async () => {
    const { errors } = problemSchema.parse((await grace.delete(path, 422)).body);
    expect(errors).deep.include({
      path: 'password',
      code: 'password_required',
      message: 'is required: the account has one',
    });
    for (const body of [{ password: 7 }, { password: '' }, { password: grace.password, force: true }]) {
      await grace.delete(path, 422, body);
    }
    await grace.get('/folders', 200);
  });
});

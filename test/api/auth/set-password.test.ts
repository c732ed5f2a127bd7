import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /auth/set-password', () => {
  const password = 'Another-horse-2';
  let api: Stack;
  let member: Member;
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    member = await api.signUp();
    await api.container.db('users').where({ id: member.userId }).update({ passwordHash: null });
  });

  it('204: the new password signs in, and sessions stay open', async () => {
    await member.post('/auth/set-password', { password }, 204);
    await api.anonymous.post('/auth/login', { username: member.email, password }, 200);
    await member.get('/folders', 200);
    await api.anonymous.post('/auth/refresh_tokens', { refresh_token: member.refreshToken }, 200);
    const actions = await api.container.db('audit_log').where({ actorId: member.userId }).pluck('action');
    expect(actions).to.include('password.set');
  });

  it('409 for an account that has a password, and when the same request is sent again', async () => {
    await member.post('/auth/set-password', { password }, 204);
    const { body } = await member.post('/auth/set-password', { password }, 409);
    expect(body).to.include({ code: 'password_already_set' });
    const other = await api.signUp();
    await other.post('/auth/set-password', { password }, 409);
    await api.anonymous.post('/auth/login', { username: other.email, password: other.password }, 200);
  });

  it('409 for all but one of many concurrent requests', async () => {
    const passwords = Array.from({ length: 6 }, (_, index) => `Another-horse-${index}`);
    const statuses = await Promise.all(
      passwords.map(async (text) => {
        const headers = { 'content-type': 'application/json' };
        const body = JSON.stringify({ password: text });
        return (await member.raw('/auth/set-password', { method: 'POST', headers, body })).status;
      }),
    );
    expect(statuses.toSorted()).to.deep.equal([204, 409, 409, 409, 409, 409]);
    const username = member.email;
    const winner = passwords[statuses.indexOf(204)];
    await api.anonymous.post('/auth/login', { username, password: winner }, 200);
  });

  it('401 without a token', async () => {
    const { body } = await api.anonymous.post('/auth/set-password', { password }, 401);
    expect(body).to.include({ code: 'invalid_token' });
  });

  it('422 for a password that breaks the password rule', async () => {
    const { body } = await member.post('/auth/set-password', { password: 'lower-case-1' }, 422);
    expect(Object(body).errors).to.have.length(1);
    expect(Object(body).errors[0]).to.include({ path: 'password', code: 'password_uppercase' });
  });
});

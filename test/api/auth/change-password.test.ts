import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('POST /auth/change-password', () => {
  const newPassword = 'Another-horse-2';
  let api: Stack;
  let member: Member;
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    member = await api.signUp();
  });

  const change = () => ({ current_password: member.password, new_password: newPassword });
  const signIn = async (password: string) => {
    const credentials = { username: member.email, password };
    const { access_token, refresh_token } = tokenResponse.parse(
      (await api.anonymous.post('/auth/login', credentials, 200)).body,
    );
    return { client: api.anonymous.withToken(access_token), refreshToken: refresh_token };
  };
  const refuseRefresh = async (refreshToken: string) => {
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
    expect(body).to.include({ code: 'refresh_invalid' });
  };
  const isOut = (client: ApiClient) =>
    until('it is cut off', async () => (await client.raw('/folders')).status === 401);
  const actionsOf = (userId: string) => api.container.db('audit_log').where({ actorId: userId }).pluck('action');

  it('204: the new password signs in, and the old one does not', async () => {
    await member.post('/auth/change-password', change(), 204);
    await api.anonymous.post('/auth/login', { username: member.email, password: member.password }, 401);
    const { client } = await signIn(newPassword);
    await client.get('/folders', 200);
    expect(await actionsOf(member.userId)).to.include('password.changed');
  });

  it('204: revokes every refresh token, including the one of the caller', async () => {
    const other = await signIn(member.password);
    await member.post('/auth/change-password', change(), 204);
    await refuseRefresh(other.refreshToken);
    await refuseRefresh(member.refreshToken);
  });

  it('204: cuts off other sessions; the access token of the caller works until it expires or the caller logs out', async () => {
    const other = await signIn(member.password);
    await other.client.get('/folders', 200);
    await member.post('/auth/change-password', change(), 204);
    await isOut(other.client);
    await member.get('/folders', 200);
    await api.anonymous.post('/auth/logout', { refresh_token: member.refreshToken }, 204);
    await isOut(member);
  });

  it('204 for a new password of 128 characters, which is kept without Unicode normalization', async () => {
    const longest = `Ä${'ö'.repeat(125)}1-`;
    await member.post('/auth/change-password', { ...change(), new_password: longest }, 204);
    await signIn(longest);
    const decomposed = longest.normalize('NFD');
    await api.anonymous.post('/auth/login', { username: member.email, password: decomposed }, 401);
  });

  it('403 for a wrong password, which changes nothing and is recorded', async () => {
    const { body } = await member.post('/auth/change-password', { ...change(), current_password: newPassword }, 403);
    expect(body).to.include({ code: 'wrong_password' });
    expect(await actionsOf(member.userId)).to.include('password.refused');
    await signIn(member.password);
  });

  it('403 when the same change is sent again', async () => {
    await member.post('/auth/change-password', change(), 204);
    const { body } = await member.post('/auth/change-password', change(), 403);
    expect(body).to.include({ code: 'wrong_password' });
  });

  it('403 for all but one of many concurrent changes', async () => {
    const passwords = Array.from({ length: 6 }, (_, index) => `Another-horse-${index}`);
    const statuses = await Promise.all(
      passwords.map(async (new_password) => {
        const body = JSON.stringify({ ...change(), new_password });
        const headers = { 'content-type': 'application/json' };
        return (await member.raw('/auth/change-password', { method: 'POST', headers, body })).status;
      }),
    );
    expect(statuses.toSorted()).to.deep.equal([204, 403, 403, 403, 403, 403]);
    await signIn(passwords[statuses.indexOf(204)] ?? '');
  });

  it('403 for an account without a password', async () => {
    await api.container.db('users').where({ id: member.userId }).update({ passwordHash: null });
    const { body } = await member.post('/auth/change-password', change(), 403);
    expect(body).to.include({ code: 'wrong_password' });
  });

  it('401 without a token', async () => {
    const { body } = await api.anonymous.post('/auth/change-password', change(), 401);
    expect(body).to.include({ code: 'invalid_token' });
  });

  it('422 for a password that breaks the password rule, naming each part', async () => {
    const { body } = await member.post('/auth/change-password', { ...change(), new_password: 'short' }, 422);
    const codes = Object(body).errors.map(({ path, code }: { path: string; code: string }) => `${path} ${code}`);
    const faults = ['length', 'uppercase', 'digit', 'special'].map((fault) => `new_password password_${fault}`);
    expect(codes).to.have.members(faults);
  });

  it('ends a session that was opened concurrently with the old password', async () => {
    const credentials = { username: member.email, password: member.password };
    const headers = { 'content-type': 'application/json' };
    const login = () =>
      api.anonymous.raw('/auth/login', { method: 'POST', headers, body: JSON.stringify(credentials) });
    const logins = Array.from({ length: 8 }, login);
    const [answers] = await Promise.all([Promise.all(logins), member.post('/auth/change-password', change(), 204)]);
    for (const answer of answers.filter(({ status }) => status === 200)) {
      const tokens = tokenResponse.parse(await answer.json());
      await refuseRefresh(tokens.refresh_token);
      await isOut(api.anonymous.withToken(tokens.access_token));
    }
  });
});

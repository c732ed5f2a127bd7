import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('POST /auth/logout', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('204 revokes the refresh token', async () => {
    const { refreshToken } = await api.signUp();
    await api.anonymous.post('/auth/logout', { refresh_token: refreshToken }, 204);
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
    expect(body).to.include({ code: 'refresh_invalid' });
  });

  it('204 cuts off the access tokens of the session, but of no other session', async () => {
    const member = await api.signUp();
    const credentials = { username: member.email, password: member.password };
    const { body } = await api.anonymous.post('/auth/login', credentials, 200);
    const other = api.anonymous.withToken(tokenResponse.parse(body).access_token);
    await member.get('/folders', 200);
    await api.anonymous.post('/auth/logout', { refresh_token: member.refreshToken }, 204);
    await until('it is refused', async () => (await member.raw('/folders')).status === 401);
    await other.get('/folders', 200);
    const actions = await api.container.db('audit_log').where({ actorId: member.userId }).pluck('action');
    expect(actions.filter((action) => action === 'session.closed')).to.have.length(1);
  });

  it('204 for a token of an ended session, and for an unknown token', async () => {
    const { refreshToken } = await api.signUp();
    await api.anonymous.post('/auth/logout', { refresh_token: refreshToken }, 204);
    await api.anonymous.post('/auth/logout', { refresh_token: refreshToken }, 204);
    await api.anonymous.post('/auth/logout', { refresh_token: 'unknown' }, 204);
  });

  it('422 without a token', async () => {
    await api.anonymous.post('/auth/logout', {}, 422);
  });
});

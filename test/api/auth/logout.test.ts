import { expect } from 'chai';
import { type Stack, stack } from '#test/support/stack.ts';

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

  it('204 for a token that does not work any more, or never did', async () => {
    const { refreshToken } = await api.signUp();
    await api.anonymous.post('/auth/logout', { refresh_token: refreshToken }, 204);
    await api.anonymous.post('/auth/logout', { refresh_token: refreshToken }, 204);
    await api.anonymous.post('/auth/logout', { refresh_token: 'unknown' }, 204);
  });

  it('422 without a token', async () => {
    await api.anonymous.post('/auth/logout', {}, 422);
  });
});

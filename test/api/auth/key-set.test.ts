import { expect } from 'chai';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /.well-known/jwks.json', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('200 returns the keys that verify access tokens', async () => {
    const { refreshToken, userId } = await api.signUp();
    const { body } = await api.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 200);
    const keys = createRemoteJWKSet(new URL(`${api.baseUrl}/.well-known/jwks.json`));
    const { payload } = await jwtVerify(Object(body).access_token, keys, { typ: 'at+jwt', algorithms: ['RS256'] });
    expect(payload.sub).to.equal(userId);
  });

  it('200 allows caching', async () => {
    const { headers } = await api.anonymous.get('/.well-known/jwks.json', 200);
    expect(headers.get('cache-control')).to.contain('max-age');
  });
});

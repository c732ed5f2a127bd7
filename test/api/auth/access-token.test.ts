import { expect } from 'chai';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('an access token', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('is asked for in the standard words', async () => {
    const { headers } = await api.anonymous.get('/folders', 401);
    expect(headers.get('www-authenticate')).to.equal('Bearer');
    const refused = await api.anonymous.withToken('nonsense').get('/folders', 401);
    expect(refused.headers.get('www-authenticate')).to.contain('invalid_token');
  });

  it('stops working within seconds once its user is disabled', async () => {
    const member = await api.signUp();
    await member.get('/folders', 200);
    await api.container.db('users').where('id', member.userId).update({ disabledAt: new Date() });
    await until('the token is refused', async () => (await member.raw('/folders')).status === 401);
  });
});

import { expect } from 'chai';
import type { Knex } from 'knex';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('access tokens', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('are requested with a WWW-Authenticate header when a token is missing or wrong', async () => {
    const { headers } = await api.anonymous.get('/folders', 401);
    expect(headers.get('www-authenticate')).to.equal('Bearer');
    const refused = await api.anonymous.withToken('nonsense').get('/folders', 401);
    expect(refused.headers.get('www-authenticate')).to.contain('invalid_token');
  });

  it('are refused in the query string, the body and a cookie', async () => {
    const { email: username, password } = await api.signUp();
    const { body } = await api.anonymous.post('/auth/login', { username, password }, 200);
    const { access_token: accessToken } = tokenResponse.parse(body);
    const elsewhere: [string, RequestInit][] = [
      [`/folders?access_token=${accessToken}`, {}],
      ['/folders', { headers: { cookie: `access_token=${accessToken}` } }],
      ['/folders', { method: 'POST', body: new URLSearchParams({ access_token: accessToken }) }],
    ];
    for (const [path, init] of elsewhere) {
      const response = await api.anonymous.raw(path, init);
      expect(response.status, path).to.equal(401);
      expect(response.headers.get('www-authenticate')).to.equal('Bearer');
      expect(await response.json()).to.include({ code: 'invalid_token' });
    }
  });

  const deleted = { deletedAt: new Date(), eraseDueAt: new Date('2100-01-01') };
  // Written to the database directly: the API has to notice without being told.
  const ends: Record<string, (db: Knex, member: Member) => Promise<unknown>> = {
    'its user is disabled': (db, { userId }) => db('users').where('id', userId).update({ disabledAt: new Date() }),
    'its user is deleted': (db, { userId }) => db('users').where('id', userId).update(deleted),
    'its organization is deleted': (db, { orgId }) => db('organizations').where('id', orgId).update(deleted),
    'its session is cut off': (db, { userId }) =>
      db('refreshTokenFamilies').where({ userId }).update({ cutOffAt: new Date() }),
    'its session row is deleted': (db, { userId }) => db('refreshTokenFamilies').where({ userId }).delete(),
  };
  for (const [what, end] of Object.entries(ends)) {
    it(`stop working within seconds once ${what}`, async () => {
      const member = await api.signUp();
      await member.get('/folders', 200);
      await end(api.container.db, member);
      const refused = await until('the token is refused', async () => {
        const response = await member.raw('/folders');
        return response.status === 401 && response;
      });
      expect(await refused.json()).to.include({ code: 'invalid_token' });
    });
  }

  it('keep working when their session can no longer be refreshed', async () => {
    const member = await api.signUp();
    const families = api.container.db('refreshTokenFamilies').where({ userId: member.userId });
    await families.update({ revokedAt: new Date(), expiresAt: new Date() });
    await member.get('/folders', 200);
  });
});

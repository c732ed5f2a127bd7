import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import { aCast, aColleague, type Cast } from '#test/support/builders.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('a request whose body comes slowly', () => {
  let api: Stack;
  let cast: Cast;
  before(async () => {
    api = await stack();
    cast = await aCast(api);
  });

  /** Sends the head and the first byte of a request. @returns what sends the rest and resolves with the status */
  async function begin(token: string, method: string, path: string, body: object): Promise<() => Promise<number>> {
    const text = JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': text.length,
    };
    const sending = request(`${api.baseUrl}${path}`, { method, headers });
    sending.write(text.slice(0, 1));
    await once(sending, 'socket');
    return async () => {
      const answer = once(sending, 'response');
      sending.end(text.slice(1));
      const [response] = await answer;
      response.resume();
      return response.statusCode;
    };
  }

  async function tokenOf(member: { email: string; password: string }): Promise<string> {
    const credentials = { username: member.email, password: member.password };
    return Object((await api.anonymous.post('/auth/login', credentials, 200)).body).access_token;
  }

  it('is refused when its sender was demoted meanwhile', async () => {
    const other = await aColleague(api, cast.orgAdmin, 'Grace', { is_admin: true });
    const path = `/entity/members/${other.userId}/org-admin`;
    const finish = await begin(await tokenOf(other), 'PATCH', path, { is_org_admin: true });
    await cast.orgAdmin.patch(path, { is_org_admin: false }, 200);
    expect(await finish()).equal(403);
    const row = await api.container.db('memberships').where({ userId: other.userId }).first();
    expect(row).include({ isOrgAdmin: false });
  });

  it('is refused when its sender was disabled meanwhile', async () => {
    const other = await aColleague(api, cast.orgAdmin);
    const finish = await begin(await tokenOf(other), 'PATCH', '/entity/me/profile', { first_name: 'Mallory' });
    await cast.orgAdmin.post(`/entity/users/${other.userId}/disable`, undefined, 204);
    expect(await finish()).equal(401);
  });
});

import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import { aCast, aColleague, type Cast } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('a request whose body comes slowly', () => {
  let api: Stack;
  let cast: Cast;
  before(async () => {
    api = await stack();
    cast = await aCast(api);
  });

  /** Sends the head and the first byte of a PATCH. @returns what sends the rest and resolves with the status */
  async function begin({ email, password }: Member, path: string, body: object): Promise<() => Promise<number>> {
    const login = await api.anonymous.post('/auth/login', { username: email, password }, 200);
    const text = JSON.stringify(body);
    const headers = {
      ...{ authorization: `Bearer ${Object(login.body).access_token}`, 'content-type': 'application/json' },
      'content-length': text.length,
    };
    const sending = request(`${api.baseUrl}${path}`, { method: 'PATCH', headers });
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

  it('is refused when its sender was demoted or disabled meanwhile', async () => {
    const demoted = await aColleague(api, cast.orgAdmin, 'Grace', { is_admin: true });
    const path = `/entity/members/${demoted.userId}/org-admin`;
    const promote = await begin(demoted, path, { is_org_admin: true });
    await cast.orgAdmin.patch(path, { is_org_admin: false }, 200);
    expect(await promote()).equal(403);
    const row = await api.container.db('memberships').where({ userId: demoted.userId }).first();
    expect(row).include({ isOrgAdmin: false });

    const disabled = await aColleague(api, cast.orgAdmin);
    const rename = await begin(disabled, '/entity/me/profile', { first_name: 'Mallory' });
    await cast.orgAdmin.post(`/entity/users/${disabled.userId}/disable`, undefined, 204);
    expect(await rename()).equal(401);
  });
});

import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { aColleague, freshEmail, treesOf } from '#test/support/builders.ts';
import { type ApiClient, type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { until } from '#test/support/until.ts';

const password = 'Correct-horse-1';
const wrong = 'Wrong-horse-1';
const newPassword = '\u00c4nother-horse-2';
const lookalike = password.replace('o', '\u043e');
const manyPasswords = Array.from({ length: 6 }, (_, index) => `Another-horse-${index}`);

describe('accounts:', () => {
  let api: Stack;
  let member: Member;
  beforeEach(async () => {
    api = await stack();
    member = await api.signUp();
  });

  const login = async (status: number, fields: object = {}) =>
    Object((await api.anonymous.post('/auth/login', { username: member.email, password, ...fields }, status)).body);
  const signIn = async (fields: object = {}) => {
    const { access_token, refresh_token } = tokenResponse.parse(await login(200, fields));
    return { client: api.anonymous.withToken(access_token), refreshToken: refresh_token };
  };
  const refresh = (refresh_token: string, status: number) =>
    api.anonymous.post('/auth/refresh_tokens', { refresh_token }, status);
  const isOut = (client: ApiClient) =>
    until('it is cut off', async () => (await client.raw('/folders')).status === 401);
  const auditActions = async () => (await auditEntries(api, member.userId)).map(({ action }) => action);

  describe('POST /auth/register', () => {
    const register = async (body: object = {}) => {
      const sent = { email: freshEmail('grace'), password, ...body };
      return tokenResponse.parse((await api.anonymous.post('/auth/register', sent, 201)).body);
    };

    it('201: creates an account and an organization that is named as requested or after its founder', async () => {
      const email = freshEmail('grace');
      const { access_token, organization, ...tokens } = await register({ email });
      expect(organization).include({ name: `${email.split('@')[0]}'s organization`, tier: 'free' });
      expect(tokens).include({ token_type: 'bearer', is_new_user: true, needs_profile_completion: true });
      expect(tokens.expires_in).equal(api.config.auth.accessTokenSeconds);
      expect(decodeJwt(access_token)).include({ org_id: organization.org_id, is_org_admin: true });
      const folders = await treesOf({ ...member, ...api.anonymous.withToken(access_token) });
      expect(folders.map(({ system_role }) => system_role)).members(['org_root', 'personal_root']);
      const founder = await register({ first_name: ' Ada ', last_name: 'Lovelace' });
      expect(founder.needs_profile_completion).equal(false);
      expect(founder.organization.name).equal("Ada Lovelace's organization");
      expect((await register({ org_name: 'Looms' })).organization.name).equal('Looms');
    });

    it('409: when the email already has an account in any letter case, also for concurrent requests', async () => {
      const taken = { email: ` ${member.email.toUpperCase()} `, password };
      expect((await api.anonymous.post('/auth/register', taken, 409)).body).include({ code: 'email_taken' });
      const sent = { email: freshEmail(), password };
      const requests = Array.from({ length: 8 }, () => sendJson(api.anonymous, 'POST', '/auth/register', sent));
      expect(await statusesOf(requests)).deep.equal([201, ...Array(7).fill(409)]);
    });
  });

  describe('POST /auth/login', () => {
    it('200: for the right password, ignoring letter case and surrounding spaces of the email', async () => {
      for (const name of ['username', 'email']) {
        const sent = { [name]: ` ${member.email.toUpperCase()}`, password };
        const { body, headers } = await api.anonymous.post('/auth/login', sent, 200);
        const { access_token, organization, is_new_user } = tokenResponse.parse(body);
        expect([organization.org_id, is_new_user]).deep.equal([member.orgId, false]);
        expect(headers.get('cache-control')).equal('no-store');
        await api.anonymous.withToken(access_token).get('/folders', 200);
      }
    });

    it('422: with both username and email, or with neither', async () => {
      const refuse = async (fields: object, error: object) =>
        expect(Object(await login(422, fields)).errors).deep.equal([error]);
      await refuse(
        { email: member.email },
        { path: 'email', message: 'Send username or email, not both', code: 'exclusive' },
      );
      await refuse({ username: undefined }, { path: 'username', message: 'Send username or email', code: 'required' });
    });

    it('200: rehashes a password whose hash has outdated parameters, once for concurrent sign-ins', async () => {
      const row = api.container.db('users').where({ id: member.userId });
      const weak = await hash(password, { memoryCost: 8_192, timeCost: 1 });
      await row.clone().update({ passwordHash: weak });
      await login(401, { password: wrong });
      expect(await row.clone().first()).include({ passwordHash: weak });
      await Promise.all([1, 2, 3].map(() => login(200)));
      const { passwordHash: renewed, version } = await row.clone().first();
      // The profile is unchanged, and the hash has the value of `PASSWORD_HASH_MEMORY_MIB` in the test stack.
      expect(version).equal(1);
      expect(renewed).match(/^\$argon2id\$v=19\$m=1024,t=2,p=1\$/);
      await login(200);
      expect(await row.clone().first()).include({ passwordHash: renewed });
    });

    it('200: without waiting for another sign-in of the same user to end', async () => {
      await api.container.db.transaction(async (trx) => {
        await trx('users').where({ id: member.userId }).forShare();
        await signIn();
      });
    });

    it('401: for a wrong password, with the same response as for an unknown email', async () => {
      const [first, second] = [await login(401, { password: wrong }), await login(401, { username: freshEmail() })];
      expect(first).include({ code: 'invalid_credentials', detail: second.detail });
      const refusal = { action: 'session.refused', actorId: null, detail: { reason: 'invalid_credentials' } };
      const entries = await api.container.audit.list({ action: 'session.refused' }, 2);
      expect(entries[1]).deep.include({ ...refusal, orgId: member.orgId, target: member.userId });
      expect(entries[0]).deep.include({ ...refusal, orgId: null, target: null });
      await login(401, { password: lookalike });
    });
  });

  describe('POST /auth/change-password', () => {
    const body = (fields: object = {}) => ({ current_password: password, new_password: newPassword, ...fields });
    const change = (status: number, fields?: object) => member.post('/auth/change-password', body(fields), status);

    it('204: only the new password signs in, and all refresh tokens and other sessions end', async () => {
      const other = await signIn();
      await other.client.get('/folders', 200);
      await change(204);
      // Passwords are compared as received, without Unicode normalization.
      for (const secret of [password, newPassword.normalize('NFD')]) await login(401, { password: secret });
      for (const { refreshToken } of [other, member]) await refresh(refreshToken, 401);
      await isOut(other.client);
      // The access token of the caller works until it expires or the caller logs out.
      await member.get('/folders', 200);
      await api.anonymous.post('/auth/logout', { refresh_token: member.refreshToken }, 204);
      await isOut(member);
      expect(await auditActions()).include('password.changed');
      await (await signIn({ password: newPassword })).client.get('/folders', 200);
    });

    it('204: ends sessions that are opened with the old password during the change', async () => {
      const sent = { username: member.email, password };
      const logins = Array.from({ length: 8 }, () => sendJson(api.anonymous, 'POST', '/auth/login', sent));
      const [answers] = await Promise.all([Promise.all(logins), change(204)]);
      for (const answer of answers.filter(({ status }) => status === 200)) {
        const tokens = tokenResponse.parse(await answer.json());
        await refresh(tokens.refresh_token, 401);
        await isOut(api.anonymous.withToken(tokens.access_token));
      }
    });

    it('403: for a wrong current password, which is audited', async () => {
      for (const current_password of [newPassword, lookalike]) {
        expect((await change(403, { current_password })).body).include({ code: 'wrong_password' });
      }
      expect(await auditActions()).include('password.refused');
      await login(200);
    });

    it('403: for all but one of many concurrent password changes', async () => {
      const requests = manyPasswords.map((new_password) =>
        sendJson(member, 'POST', '/auth/change-password', body({ new_password })),
      );
      const statuses = await Promise.all(requests.map(async (request) => (await request).status));
      expect(statuses.toSorted()).deep.equal([204, 403, 403, 403, 403, 403]);
      await login(200, { password: manyPasswords[statuses.indexOf(204)] });
    });
  });

  it('DELETE /auth/account needs the password (403, 422), and deletes the organization with its only member', async () => {
    const remove = (status: number, body?: object) => member.delete('/auth/account', status, body);
    expect((await remove(403, { password: wrong })).body).include({ code: 'wrong_password' });
    const { errors } = Object((await remove(422)).body);
    const error = { path: 'password', code: 'password_required', message: 'is required: the account has one' };
    expect(errors).deep.equal([error]);
    const grace = await aColleague(api, member);
    await member.post(`/entity/users/${grace.userId}/disable`, {}, 204);
    expect((await remove(409, { password })).body).include({ code: 'last_org_admin' });
    await member.delete(`/entity/members/${grace.userId}`, 204);
    await remove(204, { password });
    await member.get('/folders', 401);
    const entry = { action: 'organization.deleted', detail: { members: 1 } };
    expect((await auditEntries(api, member.orgId)).at(-1)).deep.include(entry);
  });
});

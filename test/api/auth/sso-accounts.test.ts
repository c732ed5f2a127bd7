import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { TokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { ApiClient } from '#test/support/client.ts';
import { type SsoStack, startSsoStack } from '#test/support/sso-stack.ts';

describe('accounts created by sign-in at an identity provider', () => {
  const password = 'Another-horse-2';
  let api: SsoStack;
  before(async () => {
    api = await startSsoStack();
  });
  after(() => api.close());

  const clientOf = ({ access_token }: TokenResponse): ApiClient => api.anonymous.withToken(access_token);
  const userOf = ({ access_token }: TokenResponse) => decodeJwt(access_token).sub;

  it('have no password until they set one, and then accept both kinds of sign-in', async () => {
    const account = api.provider.addAccount();
    const tokens = await api.signIn(account);
    const username = account.email;
    await api.anonymous.post('/auth/login', { username, password }, 401);
    const change = { current_password: password, new_password: password };
    await clientOf(tokens).post('/auth/change-password', change, 403);
    await clientOf(tokens).post('/auth/set-password', { password }, 204);
    await api.anonymous.post('/auth/login', { username, password }, 200);
    expect(userOf(await api.signIn(account))).to.equal(userOf(tokens));
    await api.anonymous.post('/auth/login', { username, password }, 200);
  });

  it('are deleted without a password; the next sign-in creates a new account', async () => {
    const account = api.provider.addAccount({ picture: 'https://pictures.example/me.png' });
    const first = await api.signIn(account);
    await clientOf(first).delete('/auth/account', 204);
    await clientOf(first).get('/entity/me/profile', 401);
    expect(await api.container.db('userIdentities').where({ userId: userOf(first) })).to.have.length(0);
    const second = await api.signIn(account);
    expect(second).to.include({ is_new_user: true });
    expect(userOf(second)).to.not.equal(userOf(first));
  });

  it('lose their link to the provider when an admin removes them', async () => {
    const admin = await api.signUp();
    const account = api.provider.addAccount();
    const fields = { email: account.email, password };
    const { user_id } = Object((await admin.post('/entity/members', fields, 201)).body);
    expect(userOf(await api.signIn(account))).to.equal(user_id);
    await admin.delete(`/entity/members/${user_id}`, 204);
    const anew = await api.signIn(account);
    expect(anew).to.include({ is_new_user: true });
    expect(anew.organization.org_id).to.not.equal(admin.orgId);
  });

  it('take over the picture of the provider at each sign-in', async () => {
    const account = api.provider.addAccount({ picture: 'https://pictures.example/old.png' });
    const pictureOf = async (tokens: TokenResponse) =>
      (
        await api.container
          .db('users')
          .where({ id: userOf(tokens) })
          .first()
      ).avatarUrl;
    expect(await pictureOf(await api.signIn(account))).to.equal('https://pictures.example/old.png');
    api.provider.tamper({ userinfo: (claims) => ({ ...claims, picture: 'https://pictures.example/new.png' }) });
    expect(await pictureOf(await api.signIn(account))).to.equal('https://pictures.example/new.png');
    api.provider.tamper({ userinfo: (claims) => ({ ...claims, picture: 'http://pictures.example/new.png' }) });
    expect(await pictureOf(await api.signIn(account))).to.equal(null);
    api.provider.tamper({});
  });
});

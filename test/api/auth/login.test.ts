import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /auth/login', () => {
  let api: Stack;
  let member: Member;
  before(async () => {
    api = await stack();
    member = await api.signUp();
  });

  const auditOf = (requestId: string) => api.container.db('auditLog').where({ requestId }).first();

  it('200 for the right password, ignoring case and surrounding spaces of the email', async () => {
    const credentials = { username: ` ${member.email.toUpperCase()}`, password: member.password };
    const { body, headers } = await api.anonymous.post('/auth/login', credentials, 200);
    const tokens = tokenResponse.parse(body);
    expect(tokens.is_new_user).to.equal(false);
    expect(tokens.organization.org_id).to.equal(member.orgId);
    expect(headers.get('cache-control')).to.equal('no-store');
    await api.anonymous.withToken(tokens.access_token).get('/folders', 200);
  });

  it('200 renews a hash that was made with other parameters, once for concurrent sign-ins', async () => {
    const owner = await api.signUp();
    const users = () => api.container.db('users').where({ id: owner.userId });
    const weak = await hash(owner.password, { memoryCost: 8_192, timeCost: 1 });
    await users().update({ passwordHash: weak });
    const credentials = { username: owner.email, password: owner.password };
    await api.anonymous.post('/auth/login', { ...credentials, password: 'Wrong-horse-1' }, 401);
    expect((await users().first())?.passwordHash).to.equal(weak);
    await Promise.all([1, 2, 3].map(() => api.anonymous.post('/auth/login', credentials, 200)));
    const { passwordHash: renewed, version } = await users().first();
    // The profile is unchanged.
    expect(version).to.equal(1);
    // The value of `PASSWORD_HASH_MEMORY_MIB` in the test stack.
    expect(renewed).to.match(/^\$argon2id\$v=19\$m=1024,t=2,p=1\$/);
    await api.anonymous.post('/auth/login', credentials, 200);
    expect((await users().first())?.passwordHash).to.equal(renewed);
  });

  it('401 for an account without a password', async () => {
    const owner = await api.signUp();
    await api.container.db('users').where({ id: owner.userId }).update({ passwordHash: null });
    await api.anonymous.post('/auth/login', { username: owner.email, password: owner.password }, 401);
  });

  it('401 for a wrong password, with the same response as for an unknown email', async () => {
    const wrong = { username: member.email, password: 'Wrong-horse-1' };
    const unknown = { username: freshEmail(), password: member.password };
    const answers = await Promise.all([wrong, unknown].map((body) => api.anonymous.post('/auth/login', body, 401)));
    const [first, second] = answers.map(({ body }) => Object(body));
    expect(first).to.include({ code: 'invalid_credentials' });
    expect(first.detail).to.equal(second.detail);
    const refusals = await Promise.all([auditOf(first.request_id), auditOf(second.request_id)]);
    const refusal = { action: 'session.refused', actorId: null, detail: { reason: 'invalid_credentials' } };
    expect(refusals[0]).to.deep.include({ ...refusal, orgId: member.orgId, target: member.userId });
    expect(refusals[1]).to.deep.include({ ...refusal, orgId: null, target: null });
  });

  it('403 for a disabled account, but only with its right password', async () => {
    const disabled = await api.signUp();
    await api.container.db('users').where('id', disabled.userId).update({ disabledAt: new Date() });
    const credentials = { username: disabled.email, password: disabled.password };
    const { body } = await api.anonymous.post('/auth/login', credentials, 403);
    expect(body).to.include({ code: 'account_disabled' });
    const refusal = { action: 'session.refused', target: disabled.userId, detail: { reason: 'account_disabled' } };
    expect(await auditOf(Object(body).request_id)).to.deep.include(refusal);
    await api.anonymous.post('/auth/login', { ...credentials, password: 'Wrong-horse-1' }, 401);
  });

  it('422 without a username, or with the email in another field', async () => {
    await api.anonymous.post('/auth/login', { password: member.password }, 422);
    await api.anonymous.post('/auth/login', { email: member.email, password: member.password }, 422);
  });
});

import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type TokenResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { freshEmail } from '#test/support/builders.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /auth/register', () => {
  const password = 'Correct-horse-1';
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  const register = async (body: object): Promise<TokenResponse> =>
    tokenResponse.parse((await api.anonymous.post('/auth/register', body, 201)).body);

  it('201 creates an account and an organization, with the user as its admin', async () => {
    const email = freshEmail('grace');
    const tokens = await register({ email, password });
    expect(tokens.organization).to.include({ name: `${email.split('@')[0]}'s organization`, tier: 'free' });
    expect(tokens).to.include({ token_type: 'bearer', is_new_user: true, needs_profile_completion: true });
    expect(tokens.expires_in).to.equal(api.config.auth.accessTokenSeconds);
    expect(decodeJwt(tokens.access_token)).to.include({ org_id: tokens.organization.org_id, is_org_admin: true });
  });

  it('201 creates the folders of the account', async () => {
    const { access_token, organization } = await register({ email: freshEmail(), password, org_name: 'Looms' });
    const { body } = await api.anonymous.withToken(access_token).get('/folders', 200);
    expect(organization.name).to.equal('Looms');
    expect(body)
      .to.be.an('array')
      .with.length(2)
      .that.satisfies((folders: { system_role: string }[]) =>
        ['org_root', 'personal_root'].every((role) => folders.some((folder) => folder.system_role === role)),
      );
  });

  it('201 stores the names, and names the organization after them', async () => {
    const tokens = await register({ email: freshEmail(), password, first_name: ' Ada ', last_name: 'Lovelace' });
    expect(tokens.needs_profile_completion).to.equal(false);
    expect(tokens.organization.name).to.equal("Ada Lovelace's organization");
  });

  it('400 for a body that is not JSON', async () => {
    const headers = { 'content-type': 'application/json' };
    const response = await api.anonymous.raw('/auth/register', { method: 'POST', headers, body: '{' });
    expect(response.status).to.equal(400);
  });

  it('409 when the email has an account, ignoring case and surrounding spaces', async () => {
    const email = freshEmail();
    await register({ email, password });
    const { body } = await api.anonymous.post('/auth/register', { email: ` ${email.toUpperCase()} `, password }, 409);
    expect(body).to.include({ code: 'email_taken' });
  });

  it('409 for all but one of several concurrent registrations of an email', async () => {
    const email = freshEmail();
    const register = () =>
      api.anonymous.raw('/auth/register', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ email, password }),
      });
    const statuses = (await Promise.all(Array.from({ length: 8 }, register))).map((response) => response.status);
    expect(statuses.sort()).to.deep.equal([201, 409, 409, 409, 409, 409, 409, 409]);
  });

  it('415 for form data', async () => {
    const response = await api.anonymous.raw('/auth/register', {
      method: 'POST',
      body: new URLSearchParams({ a: 'b' }),
    });
    expect(response.status).to.equal(415);
  });

  const wrong: [string, object, string][] = [
    ['a missing email', { password }, 'email'],
    ['a wrong email', { email: 'nobody', password }, 'email'],
    ['a missing password', { email: 'a@example.com' }, 'password'],
    ['a weak password', { email: 'a@example.com', password: 'correct-horse-1' }, 'password'],
    ['an unknown field', { email: 'a@example.com', password, is_org_admin: true }, 'is_org_admin'],
    ['a name that is no text', { email: 'a@example.com', password, first_name: 1 }, 'first_name'],
    ['a name of two lines', { email: 'a@example.com', password, display_name: 'a\nb' }, 'display_name'],
    ['a name that reorders text', { email: 'a@example.com', password, org_name: 'a\u202eb' }, 'org_name'],
  ];
  for (const [what, body, path] of wrong) {
    it(`422 for ${what}`, async () => {
      const problem = (await api.anonymous.post('/auth/register', body, 422)).body;
      expect(problem).to.have.nested.property('errors[0].path', path);
    });
  }
});

import { expect } from 'chai';
import { freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('invalid input of the /auth routes', () => {
  const good = 'Correct-horse-1';
  let api: Stack;
  let member: Member;
  before(async () => {
    api = await stack();
    member = await api.signUp();
  });

  /** A valid body for every route that takes text. */
  const bodies: Record<string, () => Record<string, string>> = {
    '/auth/register': () => {
      const names = { first_name: 'Ada', last_name: 'Lovelace', display_name: 'Ada', org_name: 'Looms' };
      return { email: freshEmail(), password: good, ...names };
    },
    '/auth/login': () => ({ username: freshEmail(), password: good }),
    '/auth/refresh_tokens': () => ({ refresh_token: 'x'.repeat(43) }),
    '/auth/logout': () => ({ refresh_token: 'x'.repeat(43) }),
    '/auth/change-password': () => ({ current_password: good, new_password: good }),
    '/auth/set-password': () => ({ password: good }),
  };
  const optional = ['first_name', 'last_name', 'display_name', 'org_name'];
  const never: Record<string, unknown> = {
    'a number': 7,
    'a boolean': true,
    null: null,
    'a list': [good],
    'an object': { $ne: '' },
    'far too many characters': 'Aa1-'.repeat(1_000),
    'a NUL': `${good}\0`,
    'a lone surrogate': `${good}\ud800`,
  };

  for (const [path, body] of Object.entries(bodies)) {
    for (const field of Object.keys(body())) {
      it(`422: for an invalid ${field} of POST ${path}`, async () => {
        const empty = optional.includes(field) ? {} : { nothing: '' };
        for (const [what, value] of Object.entries({ ...never, ...empty })) {
          const { body: problem } = await member.post(path, { ...body(), [field]: value }, 422);
          expect(Object(problem).code, what).to.equal('validation_failed');
          const paths = Object(problem).errors.map((error: { path: string }) => error.path.split('.')[0]);
          expect(new Set(paths), what).to.deep.equal(new Set([field]));
        }
      });
    }

    it(`422: for an unknown field of POST ${path}`, async () => {
      await member.post(path, { ...body(), is_org_admin: true }, 422);
    });

    it(`400, 415 or 422: for a body of POST ${path} that is no JSON object`, async () => {
      const send = (type: string, text: string) =>
        member.raw(path, { method: 'POST', headers: { 'content-type': type }, body: text });
      expect((await send('application/json', '{"password":')).status).to.equal(400);
      expect((await send('text/plain', JSON.stringify(body()))).status).to.equal(415);
      for (const text of ['null', '[]', '"text"', '7']) {
        expect((await send('application/json', text)).status, text).to.equal(422);
      }
    });
  }

  // U+0430 and U+0410 look like the Latin letters, U+FF0E like the dot, and U+200B is invisible.
  const twins = ['\u0430da@example.com', 'ada@ex\u0430mple.com', 'ada@example\uff0ecom', 'ad\u200ba@example.com'];
  it('422: for an email with lookalike or invisible characters', async () => {
    for (const email of twins) {
      await api.anonymous.post('/auth/register', { ...bodies['/auth/register']?.(), email }, 422);
      await api.anonymous.post('/auth/login', { username: email, password: good }, 422);
    }
  });

  it('401 and 403: for a password with a lookalike character', async () => {
    const twin = good.replace('o', '\u043e');
    await api.anonymous.post('/auth/login', { username: member.email, password: twin }, 401);
    const { body } = await member.post('/auth/change-password', { current_password: twin, new_password: good }, 403);
    expect(body).to.include({ code: 'wrong_password' });
  });
});

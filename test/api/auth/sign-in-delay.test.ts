import { expect } from 'chai';
import { aColleague, freshEmail } from '#test/support/builders.ts';
import { sendJson } from '#test/support/client.ts';
import { type Stack, signUpAt, startStack } from '#test/support/stack.ts';

describe('sign-ins with an email after failures from many networks', () => {
  let api: Stack;
  before(async () => {
    api = await startStack({ RATE_LIMIT_LOGIN_ACCOUNT: '3/900', TRUST_PROXY: '1' }, { workers: false });
  });
  after(() => api.close());

  let networks = 0;

  /** @param from the address of the client; by default a new one each time */
  async function login(username: string, password = 'Wrong-horse-1', from?: string) {
    networks += 1;
    const headers = { 'x-forwarded-for': from ?? `198.51.${networks}.1` };
    const answer = await sendJson(api.anonymous, 'POST', '/auth/login', { username, password }, headers);
    return { status: answer.status, waitSeconds: Number(answer.headers.get('retry-after')), body: await answer.json() };
  }

  async function fail(email: string, times: number) {
    for (let failure = 1; failure <= times; failure += 1) expect((await login(email)).status).equal(401);
  }

  /** Moves the end of all delays into the past. */
  const pass = (seconds: number) =>
    api.container
      .db('rate_limits')
      .where({ name: 'login_account' })
      .update({ endsAt: api.container.db.raw('ends_at - make_interval(secs => ?)', [seconds]) });

  for (const kind of ['an account', 'an email without an account'] as const) {
    it(`are delayed for ${kind}, longer after each further failure, up to a limit`, async () => {
      const email = kind === 'an account' ? (await api.signUp()).email : freshEmail();
      let failedAtMs = performance.now();
      await fail(email, 3);
      for (const delay of [30, 60, 120, 240, 480, 900, 900]) {
        const refused = await login(email);
        expect(refused).deep.include({ status: 429 }).nested.include({ 'body.code': 'rate_limited' });
        const passedSeconds = (performance.now() - failedAtMs) / 1_000;
        expect(refused.waitSeconds).within(delay - passedSeconds - 1, delay);
        await pass(delay);
        failedAtMs = performance.now();
        expect((await login(email.toUpperCase())).status).equal(401);
      }
      await pass(24 * 60 * 60);
      await fail(email, 3);
    });
  }

  it('are refused even with the right password until the delay is over or an admin sets a new password', async () => {
    const admin = await api.signUp();
    const { email, password, userId } = await aColleague(api, admin);
    await fail(email, 3);
    expect((await login(email, password)).status).equal(429);
    await pass(30);
    expect((await login(email, password)).status).equal(200);
    await fail(email, 3);
    expect((await login(email, password)).status).equal(429);
    const new_password = 'Another-horse-2';
    await admin.post(`/entity/users/${userId}/reset-password`, { new_password }, 204);
    expect((await login(email, new_password)).status).equal(200);
  });

  it('are not delayed in a network from which the user has signed in before; other accounts are delayed in that network too', async () => {
    const home = '203.0.113.20';
    const { email, password } = await api.signUp();
    expect((await login(email, password, home)).status).equal(200);
    await fail(email, 3);
    expect((await login(email)).status).equal(429);
    const { body } = await login(email, password, home);
    expect(body).property('access_token');
    const bob = await signUpAt(api.anonymous, 'Bob');
    await fail(bob.email, 3);
    // The network is exempt for Ada only: Bob has not signed in from it.
    expect((await login(bob.email, bob.password, home)).status).equal(429);
  });
});

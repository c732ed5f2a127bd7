import { expect } from 'chai';
import { aColleague, anApiKey, freshEmail } from '#test/support/builders.ts';
import { sendJson } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const limits = {
  RATE_LIMIT_LOGIN: '5/900',
  RATE_LIMIT_LOGIN_IP: '40/900',
  RATE_LIMIT_REFRESH: '2/60',
  RATE_LIMIT_SSO_AUTHORIZE: '1/60',
  RATE_LIMIT_SSO_CALLBACK: '2/60',
  RATE_LIMIT_CONNECT: '1/60',
  RATE_LIMIT_CHAT: '1/60',
  RATE_LIMIT_UPLOAD: '1/60',
  TRUST_PROXY: '1',
};

const wrong = 'Wrong-horse-1';

/** Asks anonymously from an address that the proxy in front of the service reports. */
function askFrom(address: string, { anonymous }: Stack, path: string, body?: object) {
  const headers = { 'x-forwarded-for': address };
  return body ? sendJson(anonymous, 'POST', path, body, headers) : anonymous.raw(path, { headers });
}

describe('rate limits', () => {
  let first: Stack;
  /** The second replica uses the same database. */
  let second: Stack;
  before(async () => {
    first = await startStack(limits, { workers: false });
    second = await startStack({ ...limits, DATABASE_URL: first.settings.DATABASE_URL ?? '' }, { workers: false });
  });
  after(async () => {
    await second.close();
    await first.close();
  });

  const ask = (address: string, path: string, body?: object, api = first) => askFrom(address, api, path, body);
  const login = (address: string, username: string, api = first) =>
    ask(address, '/auth/login', { username, password: wrong }, api);
  const refresh = async (address: string) =>
    (await ask(address, '/auth/refresh_tokens', { refresh_token: 'unknown' })).status;

  /** Signs in once from each of these addresses. @returns the status of a further sign-in from each of the others */
  async function statusesAfter(used: string[], ...others: string[]): Promise<number[]> {
    const email = freshEmail();
    for (const address of used) await login(address, email);
    return Promise.all(others.map(async (address) => (await login(address, email)).status));
  }

  it('allow exactly the configured number of concurrent sign-ins over all replicas, and are stated in responses', async () => {
    const email = freshEmail();
    const answers = Array.from({ length: 32 }, (_, index) =>
      login('203.0.113.1', index % 3 === 0 ? email.toUpperCase() : email, index % 2 === 0 ? first : second),
    );
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses.sort()).deep.equal([...Array<number>(5).fill(401), ...Array<number>(27).fill(429)]);

    const refused = await login('203.0.113.1', email);
    expect(Number(refused.headers.get('retry-after'))).within(1, 900);
    expect(refused.headers.get('ratelimit')).contain('"login";r=0;');
    const { detail, ...problem } = Object(await refused.json());
    expect(problem).include({ code: 'rate_limited', status: 429 });
    expect(detail).match(/^The limit "login" is 5 requests in 900 s\. Try again in \d+ s\.$/);
    const allowed = await login('203.0.113.2', email);
    expect(allowed.headers.get('ratelimit-policy')).equal('"login_ip";q=40;w=900, "login";q=5;w=900');
    expect(allowed.headers.get('ratelimit')).match(/^"login_ip";r=39;t=\d+, "login";r=4;t=(900|8\d\d)$/);
  });

  it('count sign-ins per IP address and email, and per IP address over all emails', async () => {
    const address = '203.0.113.3';
    expect(await statusesAfter(Array(5).fill(address), address, '203.0.113.4')).deep.equal([429, 401]);
    for (let other = 0; other < 34; other += 1) expect((await login(address, freshEmail())).status).equal(401);
    expect((await login(address, freshEmail())).status).equal(429);
  });

  it('count an IPv6 /56 as one address, allow a /48 ten times as much, and ignore forged X-Forwarded-For', async () => {
    for (const [host, status] of [401, 401, 429].entries()) expect(await refresh(`2001:db8:4::${host}`)).equal(status);
    for (let network = 1; network <= 20; network += 1) {
      expect(await refresh(`2001:db8:2:${network.toString(16)}00::1`)).equal(401);
    }
    expect([await refresh('2001:db8:2:ff00::1'), await refresh('2001:db8:3:ff00::1')]).deep.equal([429, 401]);
    const forged = [1, 2, 3, 4, 5, 9].map((lie) => `198.51.100.${lie}, 203.0.113.5`);
    expect(await statusesAfter(forged.slice(0, 5), ...forged.slice(5))).deep.equal([429]);
  });

  it('count sign-ins with an identity provider and consents per IP address, at start and at callback', async () => {
    const callback = '/auth/sso/callback?code=a&state=b';
    const consented = '/agents/tools/google_calendar/callback?state=unknown';
    for (const [address, path, body, expected] of [
      ['203.0.113.7', callback, undefined, [501, 501, 429]],
      ['203.0.113.7', '/auth/sso/authorize', { provider: 'acme' }, [501, 429]],
      ['203.0.113.8', callback, undefined, [501]],
      ['203.0.113.9', consented, undefined, [400, 429]],
      ['203.0.113.10', consented, undefined, [400]],
    ] as const) {
      for (const status of expected) expect((await ask(address, path, body)).status, path).equal(status);
    }
  });

  it('count messages, uploads, consents and password attempts per user, and per API key', async () => {
    const [ada, bob] = [await first.signUp(), await first.signUp()];
    const paste = { name: 'n', content: 'c', source_format: 'text' };
    await ada.post('/documents/paste', paste, 201);
    await ada.post('/documents/paste', paste, 429);
    const message = { agent_id: crypto.randomUUID(), message: 'Hello?' };
    await ada.post('/chat', message, 404);
    await ada.post('/chat/stream', message, 429);
    await ada.get('/agents/tools/google_calendar/authorize', 501);
    await ada.post('/agents/tools/brave_search/connection', { api_key: 'k' }, 429);
    const guess = { current_password: wrong, new_password: 'Another-horse-2' };
    for (const status of [403, 403, 403, 403, 403]) await ada.post('/auth/change-password', guess, status);
    const { headers } = await ada.post('/auth/change-password', guess, 429);
    expect(Number(headers.get('retry-after'))).above(0);
    await bob.post('/documents/paste', paste, 201);
    for (const key of [await anApiKey(ada, ['ingest']), await anApiKey(ada, ['ingest'])]) {
      for (const status of [201, 429]) await key.post('/documents/paste', paste, status);
    }
    await bob.get('/agents/tools/google_calendar/authorize', 501);
  });

  it('reset at the end of the window, and store neither IP addresses nor emails', async () => {
    const rows = () => first.container.db('rate_limits');
    for (const _ of ['first window', 'second window']) {
      for (const status of [401, 401, 429]) expect(await refresh('203.0.113.6')).equal(status);
      for (const { subject } of await rows()) expect(subject).length(32);
      await rows().update({ endsAt: new Date(0) });
    }
    await first.container.rateLimiters.shared.forgetExpired();
    expect(await rows()).deep.equal([]);
  });
});

describe('sign-ins with an email after failures from many networks', () => {
  let api: Stack;
  before(async () => {
    api = await startStack({ RATE_LIMIT_LOGIN_ACCOUNT: '3/900', TRUST_PROXY: '1' }, { workers: false });
  });
  after(() => api.close());

  let networks = 0;

  /** @param from the address of the client; by default a new one each time */
  async function signIn(username: string, password = wrong, from?: string) {
    networks += 1;
    const answer = await askFrom(from ?? `198.51.${networks}.1`, api, '/auth/login', { username, password });
    return { status: answer.status, waitSeconds: Number(answer.headers.get('retry-after')) };
  }
  async function fail(email: string) {
    for (let failure = 1; failure <= 3; failure += 1) expect((await signIn(email)).status).equal(401);
  }
  const pass = (seconds: number) =>
    api.container
      .db('rate_limits')
      .where({ name: 'login_account' })
      .update('endsAt', api.container.db.raw('ends_at - make_interval(secs => ?)', [seconds]));

  it('are delayed longer after each further failure, up to a limit, also if no account has the email', async () => {
    for (const email of [(await api.signUp()).email, freshEmail()]) {
      let failedAtMs = performance.now();
      await fail(email);
      for (const delay of [30, 60, 120, 240, 480, 900, 900]) {
        const refused = await signIn(email);
        expect(refused.status).equal(429);
        const passedSeconds = (performance.now() - failedAtMs) / 1_000;
        expect(refused.waitSeconds).within(delay - passedSeconds - 1, delay);
        await pass(delay);
        failedAtMs = performance.now();
        expect((await signIn(email.toUpperCase())).status).equal(401);
      }
      await pass(24 * 60 * 60);
      await fail(email);
    }
  });

  it('are refused even with the right password until the delay is over or an admin sets a new password', async () => {
    const admin = await api.signUp();
    const { email, password, userId } = await aColleague(api, admin);
    await fail(email);
    expect((await signIn(email, password)).status).equal(429);
    await pass(30);
    expect((await signIn(email, password)).status).equal(200);
    await fail(email);
    expect((await signIn(email, password)).status).equal(429);
    const new_password = 'Another-horse-2';
    await admin.post(`/entity/users/${userId}/reset-password`, { new_password }, 204);
    expect((await signIn(email, new_password)).status).equal(200);
  });

  it('are not delayed in a network from which the same user has signed in before', async () => {
    const home = '203.0.113.20';
    const [ada, bob] = [await api.signUp(), await api.signUp()];
    expect((await signIn(ada.email, ada.password, home)).status).equal(200);
    for (const { email } of [ada, bob]) await fail(email);
    expect((await signIn(ada.email)).status).equal(429);
    expect((await signIn(ada.email, ada.password, home)).status).equal(200);
    expect((await signIn(bob.email, bob.password, home)).status).equal(429);
  });
});

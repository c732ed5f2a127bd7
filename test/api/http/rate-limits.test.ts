import { expect } from 'chai';
import { freshEmail } from '#test/support/builders.ts';
import type { ApiClient } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const limits = {
  RATE_LIMIT_LOGIN: '5/900',
  RATE_LIMIT_LOGIN_IP: '40/900',
  RATE_LIMIT_REFRESH: '2/60',
  RATE_LIMIT_SSO_AUTHORIZE: '1/60',
  RATE_LIMIT_SSO_CALLBACK: '2/60',
  RATE_LIMIT_CHAT: '1/60',
  RATE_LIMIT_UPLOAD: '1/60',
  RATE_LIMIT_CONNECT: '1/60',
  TRUST_PROXY: '1',
};

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

  /** A client whose address the proxy in front of the service reports. */
  const from = (address: string, api: ApiClient = first.anonymous) => ({
    login: (username: string) =>
      api.raw('/auth/login', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
        body: JSON.stringify({ username, password: 'Wrong-horse-1' }),
      }),
  });

  it('allow exactly the configured number of concurrent sign-ins, across replicas', async () => {
    const email = freshEmail();
    const clients = [from('203.0.113.1'), from('203.0.113.1', second.anonymous)];
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, index) =>
        clients[index % 2]?.login(index % 3 === 0 ? email.toUpperCase() : email),
      ),
    );
    const statuses = answers.map((answer) => answer?.status);
    expect(statuses.filter((status) => status === 401)).length(5);
    expect(statuses.filter((status) => status === 429)).length(27);
  });

  it('429 names the limit and Retry-After, and every response has the RateLimit headers', async () => {
    const email = freshEmail();
    const { login } = from('203.0.113.2');
    const allowed = await login(email);
    expect(allowed.headers.get('ratelimit-policy')).equal('"login_ip";q=40;w=900, "login";q=5;w=900');
    expect(allowed.headers.get('ratelimit')).match(/^"login_ip";r=39;t=\d+, "login";r=4;t=(900|8\d\d)$/);
    for (let attempt = 2; attempt <= 5; attempt += 1) await login(email);
    const refused = await login(email);
    expect(refused.status).equal(429);
    const problem = (await refused.json()) as { code: string; detail: string };
    expect(problem).include({ code: 'rate_limited', status: 429 });
    expect(problem.detail).match(/^The limit "login" is 5 requests in 900 s\. Try again in \d+ s\.$/);
    expect(Number(refused.headers.get('retry-after'))).within(1, 900);
    expect(refused.headers.get('ratelimit')).contain('"login";r=0;');
  });

  it('count per address and email, and per address over all emails', async () => {
    const email = freshEmail();
    for (let attempt = 1; attempt <= 5; attempt += 1) await from('203.0.113.3').login(email);
    expect((await from('203.0.113.3').login(email)).status).equal(429);
    expect((await from('203.0.113.3').login(freshEmail())).status).equal(401);
    expect((await from('203.0.113.4').login(email)).status).equal(401);
    for (let other = 0; other < 33; other += 1) await from('203.0.113.3').login(freshEmail());
    expect((await from('203.0.113.3').login(freshEmail())).status).equal(429);
  });

  it('count the addresses of an IPv6 network together', async () => {
    const email = freshEmail();
    for (let host = 1; host <= 5; host += 1) await from(`2001:db8:1:2::${host}`).login(email);
    expect((await from('2001:db8:1:2:ffff::9').login(email)).status).equal(429);
    expect((await from('2001:db8:1:ff::1').login(email)).status).equal(429);
    expect((await from('2001:db8:1:100::1').login(email)).status).equal(401);
  });

  it('count the networks of an IPv6 /48 together, with ten times the limit', async () => {
    const refresh = (address: string) =>
      first.anonymous.raw('/auth/refresh_tokens', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
        body: JSON.stringify({ refresh_token: 'unknown' }),
      });
    for (let network = 1; network <= 20; network += 1) {
      expect((await refresh(`2001:db8:2:${network.toString(16)}00::1`)).status).equal(401);
    }
    expect((await refresh('2001:db8:2:ff00::1')).status).equal(429);
    expect((await refresh('2001:db8:3:ff00::1')).status).equal(401);
  });

  it('trust the nearest proxy only', async () => {
    const email = freshEmail();
    for (let lie = 1; lie <= 5; lie += 1) await from(`198.51.100.${lie}, 203.0.113.5`).login(email);
    expect((await from('198.51.100.9, 203.0.113.5').login(email)).status).equal(429);
  });

  it('reset at the end of the window', async () => {
    const refresh = () =>
      first.anonymous.raw('/auth/refresh_tokens', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': '203.0.113.6' },
        body: JSON.stringify({ refresh_token: 'unknown' }),
      });
    for (const status of [401, 401, 429]) expect((await refresh()).status).equal(status);
    await first.container.db('rate_limits').update({ endsAt: new Date(0) });
    for (const status of [401, 401, 429]) expect((await refresh()).status).equal(status);
  });

  it('count sign-ins with an identity provider per address, at their start and at the callback', async () => {
    const statusOf = async (path: string, address: string, method = 'GET') => {
      const headers = { 'content-type': 'application/json', 'x-forwarded-for': address };
      const body = method === 'GET' ? {} : { body: JSON.stringify({ provider: 'acme' }) };
      return (await first.anonymous.raw(path, { method, headers, ...body })).status;
    };
    const callback = '/auth/sso/callback?code=a&state=b';
    for (const status of [501, 501, 429]) expect(await statusOf(callback, '203.0.113.7')).equal(status);
    for (const status of [501, 429]) expect(await statusOf('/auth/sso/authorize', '203.0.113.7', 'POST')).equal(status);
    expect(await statusOf(callback, '203.0.113.8')).equal(501);
  });

  it('count messages and uploads per user', async () => {
    const [ada, bob] = [await first.signUp(), await first.signUp()];
    const paste = { name: 'n', content: 'c', source_format: 'text' };
    await ada.post('/documents/paste', paste, 201);
    await ada.post('/documents/paste', paste, 429);
    await bob.post('/documents/paste', paste, 201);
    const message = { agent_id: crypto.randomUUID(), message: 'Hello?' };
    await ada.post('/chat', message, 404);
    await ada.post('/chat/stream', message, 429);
  });

  it('count consents per user at their start, and per address at the callback', async () => {
    const [ada, bob] = [await first.signUp(), await first.signUp()];
    const calendar = '/agents/tools/google_calendar';
    await ada.get(`${calendar}/authorize`, 501);
    await ada.post('/agents/tools/brave_search/connection', { api_key: 'k' }, 429);
    await bob.get(`${calendar}/authorize`, 501);
    const back = async (from: string) => {
      const headers = { 'x-forwarded-for': from };
      return (await first.anonymous.raw(`${calendar}/callback?state=unknown`, { headers })).status;
    };
    expect([await back('203.0.113.9'), await back('203.0.113.9'), await back('203.0.113.10')]).deep.equal([
      400, 429, 400,
    ]);
  });

  it('count guesses at the password of a signed-in user', async () => {
    const ada = await first.signUp();
    const guess = { current_password: 'Wrong-horse-1', new_password: 'Another-horse-2' };
    for (let attempt = 1; attempt <= 5; attempt += 1) await ada.post('/auth/change-password', guess, 403);
    const { headers } = await ada.post('/auth/change-password', guess, 429);
    expect(Number(headers.get('retry-after'))).above(0);
  });

  it('store no addresses and no emails', async () => {
    const rows = await first.container.db('rate_limits').select('subject');
    expect(rows.length).above(0);
    for (const { subject } of rows) expect(subject).length(32);
    await first.container.db('rate_limits').update({ endsAt: new Date(0) });
    await first.container.rateLimiters.shared.forgetExpired();
    expect(await first.container.db('rate_limits').select()).deep.equal([]);
  });
});

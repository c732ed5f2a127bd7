import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { aColleague, clerk } from '#test/support/builders.ts';
import { type Member, readEvents } from '#test/support/client.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { forwardEmbeddings } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const rateLimits = { RATE_LIMIT_READ: '4/3600', RATE_LIMIT_WRITE: '3/3600', RATE_LIMIT_SEARCH: '2/3600' };
const text = { name: 'n', content: 'A fox.', source_format: 'text' };

const slowJson = { path: '/agent-drafts', type: 'application/json', beginning: '{"agent_name": "' };
const slowAvatar = {
  path: '/entity/me/avatar',
  type: 'multipart/form-data; boundary=b',
  beginning: '--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\nsome',
};

async function withStack(settings: Record<string, string>, use: (stack: Stack) => Promise<void>): Promise<void> {
  const own = await startStack(settings, { workers: false });
  await use(own).finally(own.close);
}

/** Opens the event stream of a new job that no worker runs. */
async function watch(member: Member) {
  const { id } = Object((await member.post('/documents/paste', text, 201)).body);
  const leaving = new AbortController();
  const response = await member.raw(`/jobs/ingest-${id}-1/events`, { signal: leaving.signal });
  const problem = response.status === 200 ? null : await response.json();
  if (problem === null) await readEvents(response).next();
  return { status: response.status, headers: response.headers, problem, leave: () => leaving.abort() };
}

/** Sends requests whose bodies never end. @returns why one of them was rejected, and what aborts the others */
async function sendSlowly(member: Member, count: number, { path, type, beginning } = slowJson) {
  const leaving = new AbortController();
  const problems = Array.from({ length: count }, async () => {
    const body = new ReadableStream({ start: (sender) => sender.enqueue(new TextEncoder().encode(beginning)) });
    const init: RequestInit = { method: 'POST', headers: { 'content-type': type }, body, duplex: 'half' };
    const response = await member.raw(path, { ...init, signal: leaving.signal });
    return ((await response.json()) as { detail: string }).detail;
  });
  for (const problem of problems) problem.catch(() => undefined);
  return { problem: await Promise.race(problems), leave: () => leaving.abort() };
}

describe('an organization with many requests', () => {
  let own: Stack;
  let ada: Member;
  let colleague: Member;
  let other: Member;
  before(async () => {
    own = await startStack({ CONCURRENT_REQUESTS: '3/5', CONCURRENT_STREAMS: '2/3' }, { workers: false });
  });
  beforeEach(async () => {
    ada = await own.signUp();
    colleague = await aColleague(own, ada);
    other = await own.signUp('Bob');
  });
  after(() => own.close());

  it('has a limited number of streams, while other organizations can open theirs', async () => {
    const [first, second] = [await watch(ada), await watch(ada)];
    expect([first.status, second.status]).deep.equal([200, 200]);
    const refused = await watch(ada);
    expect([refused.status, refused.headers.get('retry-after')]).deep.equal([429, '5']);
    const detail = 'You have 2 event streams open, and no more are allowed at once.';
    expect(refused.problem).include({ code: 'rate_limited', detail });
    expect((await watch(colleague)).status).equal(200);
    const all = 'Your organization has 3 event streams open, and no more are allowed at once.';
    expect((await watch(colleague)).problem).include({ detail: all });
    expect((await watch(other)).status).equal(200);
    first.leave();
    await until('the place is free again', async () => (await watch(ada)).status === 200);
  });

  it('has a limited number of open requests, and can upload one avatar at a time', async () => {
    const slow = await sendSlowly(ada, 4);
    expect(slow.problem).equal('You have 3 requests open, and no more are allowed at once.');
    const slowColleague = await sendSlowly(colleague, 3);
    expect(slowColleague.problem).equal('Your organization has 5 requests open, and no more are allowed at once.');
    await other.get('/entity/me/profile', 200);
    for (const { leave } of [slow, slowColleague]) leave();
    await until('the places are free again', async () => (await ada.raw('/entity/me/profile')).status === 200);

    const avatars = await sendSlowly(other, 2, slowAvatar);
    expect(avatars.problem).equal('Your previous avatar is still being uploaded.');
    const body = new FormData();
    body.append('file', new Blob(['no image']), 'a.png');
    expect((await ada.raw('/entity/me/avatar', { method: 'POST', body })).status).equal(422);
    avatars.leave();
  });

  it('has rate limits for reads, writes and searches, shown in every response', async () => {
    await withStack(rateLimits, async (limited) => {
      const [noisy, quiet] = [await limited.signUp(), await limited.signUp()];
      for (const remaining of [1, 0]) {
        const allowed = await noisy.get('/documents/search?q=fox', 200);
        expect(allowed.headers.get('ratelimit')).contain(`"search";r=${remaining};t=`);
      }
      const { headers } = await noisy.get('/documents/search?q=fox', 429);
      expect(Number(headers.get('retry-after'))).within(3_500, 3_600);
      for (const status of [200, 200, 200, 200, 429]) await noisy.get('/entity/me/profile', status);
      for (const status of [201, 201, 201, 429]) await noisy.post('/agent-drafts', clerk, status);
      for (const path of ['/documents/search?q=fox', '/entity/me/profile']) await quiet.get(path, 200);
      await quiet.post('/agent-drafts', clerk, 201);
    });
  });

  it('has a limited number of waiting previews, while other organizations do not wait', async () => {
    const held = Promise.withResolvers<void>();
    const model = await serveLocally(async (request, response) => {
      const body = await json(request).catch(() => null);
      await held.promise;
      if (body !== null) await forwardEmbeddings(body, response);
    });
    await withStack({ OPENAI_BASE_URL: `${model.baseUrl}/v1` }, async (stack) => {
      const [noisy, quiet] = [await stack.signUp(), await stack.signUp()];
      const body = JSON.stringify({ content: 'A fox. A hound.', config: { method: 'semantic' } });
      const headers = { 'content-type': 'application/json' };
      const answers = Array.from({ length: 10 }, async () => {
        return (await noisy.raw('/rag/chunks/preview', { method: 'POST', headers, body })).status;
      });
      expect(await Promise.race(answers), 'one runs, eight wait, and the tenth is refused').equal(429);
      await quiet.post('/rag/chunks/preview', { content: 'A fox.' }, 200);
      held.resolve();
      expect((await Promise.all(answers)).toSorted()).deep.equal([...Array<number>(9).fill(200), 429]);
    }).finally(model.close);
  });

  it('has only one database connection waiting for its concurrent creations, so that others can create', async () => {
    await withStack({ DATABASE_POOL_SIZE: '5' }, async ({ container: { db }, signUp }) => {
      const [noisy, quiet] = [await signUp(), await signUp()];
      const waiting = async () => {
        const locked = db('pg_stat_activity').where({ waitEventType: 'Lock' });
        return (await locked.whereRaw('datname = current_database()')).length;
      };
      const { answers } = await db.transaction(async (trx) => {
        await trx('organizations').where({ id: noisy.orgId }).forNoKeyUpdate().first();
        const created = Array.from({ length: 8 }, (_, n) =>
          n % 2 === 0 ? noisy.post('/documents/paste', text, 201) : noisy.post('/agent-drafts', {}, 201),
        );
        await until('one waits for its organization', async () => (await waiting()) > 0);
        await quiet.post('/documents/paste', text, 201);
        expect(await waiting()).equal(1);
        return { answers: created };
      });
      await Promise.all(answers);
    });
  });
});

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { aColleague, clerk } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { forwardEmbeddings } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const settings = { CONCURRENT_REQUESTS: '3/5', CONCURRENT_STREAMS: '2/3' };
const rateLimits = { RATE_LIMIT_READ: '4/3600', RATE_LIMIT_WRITE: '3/3600', RATE_LIMIT_SEARCH: '2/3600' };

const slowJson = { path: '/agent-drafts', type: 'application/json', beginning: '{"agent_name": "' };
const slowAvatar = {
  path: '/entity/me/avatar',
  type: 'multipart/form-data; boundary=b',
  beginning: '--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\nsome',
};

describe('a noisy neighbour', () => {
  let own: Stack;
  before(async () => {
    own = await startStack(settings, { workers: false });
  });
  after(() => own.close());

  async function paste(member: Member): Promise<string> {
    const { body } = await member.post('/documents/paste', { name: 'n', content: 'c', source_format: 'text' }, 201);
    return `ingest-${(body as { id: string }).id}-1`;
  }

  /** Opens the event stream of a job that no worker runs. */
  async function watch(member: Member, jobId: string) {
    const leaving = new AbortController();
    const response = await member.raw(`/jobs/${jobId}/events`, { signal: leaving.signal });
    const problem = response.status === 200 ? null : await response.json();
    if (problem === null) await readEvents(response).next();
    return { status: response.status, headers: response.headers, problem, leave: () => leaving.abort() };
  }

  it('has a limited number of streams, and other organizations keep theirs', async () => {
    const ada = await own.signUp();
    const colleague = await aColleague(own, ada);
    const other = await own.signUp('Bob');
    const [job, jobOfColleague, jobOfOther] = [await paste(ada), await paste(colleague), await paste(other)];
    const open = [await watch(ada, job), await watch(ada, job)];
    expect(open.map(({ status }) => status)).deep.equal([200, 200]);

    const refused = await watch(ada, job);
    expect(refused.status).equal(429);
    expect(refused.headers.get('retry-after')).equal('5');
    expect(refused.problem).include({
      code: 'rate_limited',
      detail: 'You have 2 event streams open, and no more are allowed at once.',
    });
    open.push(await watch(colleague, jobOfColleague));
    expect((await watch(colleague, jobOfColleague)).problem).property(
      'detail',
      'Your organization has 3 event streams open, and no more are allowed at once.',
    );
    expect((await watch(other, jobOfOther)).status).equal(200);

    open[0]?.leave();
    await until('the place is free again', async () => (await watch(ada, job)).status === 200);
  });

  it('costs one query for all streams of a process', async () => {
    const members = [await own.signUp(), await own.signUp(), await own.signUp()];
    for (const member of members) {
      const jobId = await paste(member);
      expect([(await watch(member, jobId)).status, (await watch(member, jobId)).status]).deep.equal([200, 200]);
    }
    const jobsAsked: unknown[] = [];
    const listen = ({ sql, bindings }: { sql: string; bindings: unknown[] }) => {
      if (/^select .* from "jobs"/.test(sql)) jobsAsked.push(bindings.flat());
    };
    own.container.db.on('query', listen);
    await until('the jobs were read three times', async () => jobsAsked.length >= 3);
    own.container.db.off('query', listen);
    for (const ids of jobsAsked.slice(0, 3)) expect(ids).property('length').at.least(3);
  });

  it('has a limited number of open requests, and other organizations keep theirs', async () => {
    const ada = await own.signUp();
    const colleague = await aColleague(own, ada);
    const other = await own.signUp('Bob');
    const slow = Array.from({ length: 4 }, () => sendSlowly(ada));
    expect(await Promise.race(slow.map(({ problem }) => problem))).equal(
      'You have 3 requests open, and no more are allowed at once.',
    );
    const slowColleague = Array.from({ length: 3 }, () => sendSlowly(colleague));
    expect(await Promise.race(slowColleague.map(({ problem }) => problem))).equal(
      'Your organization has 5 requests open, and no more are allowed at once.',
    );
    await other.get('/entity/me/profile', 200);
    for (const { leave } of [...slow, ...slowColleague]) leave();
    await until('the places are free again', async () => (await ada.raw('/entity/me/profile')).status === 200);
  });

  it('has rate limits for reads, writes and searches, shown in every response', async () => {
    await withStack(rateLimits, async (limited) => {
      const [ada, bob] = [await limited.signUp(), await limited.signUp()];
      for (const remaining of [1, 0]) {
        const { headers } = await ada.get('/documents/search?q=fox', 200);
        expect(headers.get('ratelimit-policy')).equal('"search";q=2;w=3600');
        expect(headers.get('ratelimit')).contain(`"search";r=${remaining};t=`);
      }
      const { headers } = await ada.get('/documents/search?q=fox', 429);
      expect(Number(headers.get('retry-after'))).within(3_500, 3_600);
      await bob.get('/documents/search?q=fox', 200);

      for (const status of [200, 200, 200, 200, 429]) await ada.get('/entity/me/profile', status);
      await bob.get('/entity/me/profile', 200);
      for (const status of [201, 201, 201, 429]) await ada.post('/agent-drafts', clerk, status);
      await bob.post('/agent-drafts', clerk, 201);
    });
  });

  it('has a limited number of waiting previews, and other organizations do not wait for them', async () => {
    const held = Promise.withResolvers<void>();
    const model = createServer(async (request, response) => {
      const body = await json(request).catch(() => null);
      await held.promise;
      if (body !== null) await forwardEmbeddings(body, response);
    }).listen(0, '127.0.0.1');
    await once(model, 'listening');
    const modelUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
    await withStack({ OPENAI_BASE_URL: modelUrl }, async (noisy) => {
      const [ada, bob] = [await noisy.signUp(), await noisy.signUp()];
      const preview = async () => {
        const body = JSON.stringify({ content: 'A fox. A hound.', config: { method: 'semantic' } });
        const headers = { 'content-type': 'application/json' };
        return (await ada.raw('/rag/chunks/preview', { method: 'POST', headers, body })).status;
      };
      const answers = Array.from({ length: 10 }, preview);
      expect(await Promise.race(answers), 'one runs, eight wait, and the tenth is refused').equal(429);
      await bob.post('/rag/chunks/preview', { content: 'A fox.' }, 200);
      held.resolve();
      expect((await Promise.all(answers)).toSorted()).deep.equal([...Array<number>(9).fill(200), 429]);
    }).finally(() => model.close());
  });

  it('uses one database connection for concurrent creations', async () => {
    await withStack({ DATABASE_POOL_SIZE: '5' }, async ({ container: { db }, signUp }) => {
      const [ada, bob] = [await signUp(), await signUp()];
      const text = { name: 'n', content: 'A fox.', source_format: 'text' };
      const waiting = async () => {
        const locked = db('pg_stat_activity').where({ waitEventType: 'Lock' });
        return (await locked.whereRaw('datname = current_database()')).length;
      };
      const made = await db.transaction(async (trx) => {
        await trx('organizations').where({ id: ada.orgId }).forNoKeyUpdate().first();
        const answers = Array.from({ length: 8 }, (_, n) =>
          n % 2 === 0 ? ada.post('/documents/paste', text, 201) : ada.post('/agent-drafts', {}, 201),
        );
        await until('one waits for its organization', async () => (await waiting()) > 0);
        await bob.post('/documents/paste', text, 201);
        expect(await waiting()).equal(1);
        return { answers };
      });
      await Promise.all(made.answers);
    });
  });

  it('has one avatar upload at a time', async () => {
    const [ada, bob] = [await own.signUp(), await own.signUp()];
    const slow = [sendSlowly(ada, slowAvatar), sendSlowly(ada, slowAvatar)];
    expect(await Promise.race(slow.map(({ problem }) => problem))).equal(
      'Your previous avatar is still being uploaded.',
    );
    const body = new FormData();
    body.append('file', new Blob(['no image']), 'a.png');
    expect((await bob.raw('/entity/me/avatar', { method: 'POST', body })).status).equal(422);
    for (const { leave } of slow) leave();
  });
});

async function withStack(settings: Record<string, string>, use: (stack: Stack) => Promise<void>): Promise<void> {
  const own = await startStack(settings, { workers: false });
  await use(own).finally(own.close);
}

/** Sends a request whose body never ends; `problem` is why it was rejected, `leave` aborts it. */
function sendSlowly(
  member: Member,
  { path, type, beginning }: typeof slowJson = slowJson,
): { problem: Promise<string>; leave: () => void } {
  const leaving = new AbortController();
  const body = new ReadableStream({ start: (sender) => sender.enqueue(new TextEncoder().encode(beginning)) });
  const headers = { 'content-type': type };
  const init: RequestInit = { method: 'POST', headers, body, duplex: 'half', signal: leaving.signal };
  const problem = member
    .raw(path, init)
    .then(async (response) => ((await response.json()) as { detail: string }).detail);
  problem.catch(() => undefined);
  return { problem, leave: () => leaving.abort() };
}

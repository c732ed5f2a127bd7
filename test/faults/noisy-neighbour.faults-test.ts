import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { defaultRateLimits } from '#src/domain/access/limits.ts';
import { aColleague, aDraft, anEvaluableVersion, startPath } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { note } from '#test/support/fault-run.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { megabytes, memoryOf, probedSettings } from './memory-of.ts';
import type { NoisyAnswers, NoisyTask } from './noisy-tenant.ts';

const rounds = 30;
/** Until the neighbour has all that it gets. */
const warmUpMs = 5_000;
/** Bodies under way, and what the garbage collector has not yet taken. */
const memoryLimitBytes = 400 * 1024 ** 2;

/** As an installation has them; those of the tests are off. One user signs in in each round. */
const usualLimits = {
  ...Object.fromEntries(
    Object.entries(defaultRateLimits).map(([name, { count, seconds }]) => {
      return [`RATE_LIMIT_${name.toUpperCase()}`, `${count}/${seconds}`];
    }),
  ),
  RATE_LIMIT_LOGIN: '1000/900',
  RATE_LIMIT_LOGIN_IP: '1000/900',
};

describe('noisy neighbour: an organization that sends as many requests as it can', function () {
  this.timeout(600_000);
  let own: Stack;
  let api: ServiceProcess & { baseUrl: string };
  let bucket: Awaited<ReturnType<typeof serveEndlessly>>;

  before(async () => {
    bucket = await serveEndlessly();
    // Without workers: a request that waits for a job waits for as long as it may.
    own = await startStack({ EGRESS_ALLOW: bucket.place }, { workers: false });
    api = await startApiProcess(own, { ...usualLimits, ...probedSettings });
  });
  after(async () => {
    await api.stop();
    await own.close();
    await bucket.close();
  });

  async function tokenOf(anonymous: ApiClient, { email, password }: Member): Promise<string> {
    const { body } = await anonymous.post('/auth/login', { username: email, password }, 200);
    return Object(body).access_token;
  }

  /** What a user with a small dataroom asks, and a sign-in. */
  async function ordinaryRequests(member: Member): Promise<(() => Promise<unknown>)[]> {
    const { documentId } = await uploadText(member, 'A fox is quick.');
    const draft = await aDraft(member);
    const paths = [
      ...['/entity/me/profile', '/folders', '/documents?limit=20', `/documents/${documentId}`, '/chat'],
      ...['/documents/search?q=fox', `/jobs/ingest-${documentId}-1`, `/agent-drafts/${draft.id}`],
    ];
    const name = () => crypto.randomUUID();
    return [
      ...paths.map((path) => () => member.get(path, 200)),
      () => member.post('/documents/paste', { name: name(), content: name(), source_format: 'text' }, 201),
      () => member.post('/rag/chunks/preview', { content: 'A fox is quick.' }, 200),
      () => tokenOf(own.anonymous.at(api.baseUrl), member),
    ];
  }

  /** The 95th percentile of the milliseconds of each request, one after the other. */
  async function p95Of(requests: readonly (() => Promise<unknown>)[], times: number): Promise<number> {
    const taken: number[] = [];
    for (let round = 0; round < times; round += 1) {
      // As a user does, and within the limits of one.
      await delay(1_000);
      for (const request of requests) {
        const beganMs = performance.now();
        await request();
        taken.push(performance.now() - beganMs);
      }
    }
    return taken.sort((a, b) => a - b)[Math.floor(taken.length * 0.95)] ?? 0;
  }

  it('makes requests of others at most three times as slow, within the memory limit of the API', async () => {
    const { rssBytes } = await memoryOf(api);
    const [noisy, signedUp] = [await own.signUp('Noisy'), await own.signUp('Quiet')];
    const requests = await ordinaryRequests({ ...signedUp, ...signedUp.at(api.baseUrl) });
    const task: NoisyTask = {
      baseUrl: api.baseUrl,
      token: await tokenOf(own.anonymous, noisy),
      jobId: (await uploadText(noisy, 'A fox is quick.')).jobId,
      colleagueId: (await aColleague(own, noisy)).userId,
      evaluationPath: startPath(await anEvaluableVersion(noisy)),
      hostileEndpoint: bucket.baseUrl,
    };
    await p95Of(requests, 3);
    const idle = await p95Of(requests, rounds);
    const neighbour = fork(new URL('noisy-tenant.ts', import.meta.url), {
      env: { ...process.env, NOISY_TENANT: JSON.stringify(task) },
    });
    await delay(warmUpMs);
    const busy = await p95Of(requests, rounds);
    const told = once(neighbour, 'message');
    neighbour.send('stop');
    const [answers] = (await told) as [NoisyAnswers];
    note(`p95 of eleven requests ${idle.toFixed(0)} ms alone, ${busy.toFixed(0)} ms beside it`);
    for (const [kind, counts] of Object.entries(answers)) note(`${kind}: ${JSON.stringify(counts)}`);
    const grownBytes = (await memoryOf(api)).rssBytes - rssBytes;
    note(`the API process grew by ${megabytes(grownBytes)}`);
    expect(busy / idle, 'times as long').at.most(3);
    expect(grownBytes, 'memory').at.most(memoryLimitBytes);
  });
});

/** An object store whose answers have no end. */
const serveEndlessly = () =>
  serveLocally((_, response) => {
    const more = () => {
      while (!response.destroyed && response.write('<Contents><Key>a</Key></Contents>'.repeat(1_000)));
    };
    response.writeHead(200, { 'content-type': 'application/xml' }).on('drain', more);
    response.write('<?xml version="1.0"?><ListBucketResult>');
    more();
  });

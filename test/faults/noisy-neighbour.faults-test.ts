import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { defaultRateLimits } from '#src/domain/access/limits.ts';
import { aColleague, aDraft, anEvaluableVersion, startPath } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { note } from '#test/support/fault-run.ts';
import type { NoisyAnswers, NoisyTask } from '#test/support/noisy-tenant.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const rounds = 30;
/** Until the neighbour has all that it gets. */
const warmUpMs = 5_000;
/** Bodies under way, and what the collector has not yet taken. */
const memoryLimitBytes = 400 * 1024 ** 2;

/** As an installation has them; those of the tests are off. One user signs in in each round. */
const usualLimits = {
  ...Object.fromEntries(
    Object.entries(defaultRateLimits).map(([name, { count, seconds }]) => [
      `RATE_LIMIT_${name.toUpperCase()}`,
      `${count}/${seconds}`,
    ]),
  ),
  RATE_LIMIT_LOGIN: '1000/900',
  RATE_LIMIT_LOGIN_IP: '1000/900',
};

describe('noisy neighbour: a tenant that takes all it gets of an API', function () {
  this.timeout(600_000);
  let own: Stack;
  let api: ServiceProcess & { baseUrl: string };
  const endless = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/xml' });
    const item = '<Contents><Key>a</Key></Contents>'.repeat(1_000);
    const more = () => {
      while (!response.destroyed && response.write(item));
    };
    response.write('<?xml version="1.0"?><ListBucketResult>');
    response.on('drain', more);
    more();
  });

  before(async () => {
    endless.listen(0, '127.0.0.1');
    await once(endless, 'listening');
    // Without workers: what waits for a job waits for as long as it may.
    own = await startStack({ EGRESS_ALLOW: placeOf(endless) }, { workers: false });
    api = await startApiProcess(own, usualLimits);
  });
  after(async () => {
    await api.stop();
    await own.close();
    endless.closeAllConnections();
    endless.close();
  });

  /** How many times as long ten ordinary requests of another tenant and a sign-in take beside it, at the 95th percentile. */
  async function slowdownBy({ hasUploads }: { hasUploads: boolean }): Promise<number> {
    const [noisy, signedUp] = [await own.signUp('Noisy'), await own.signUp('Quiet')];
    const quiet = { ...signedUp, ...signedUp.at(api.baseUrl) };
    const task: NoisyTask = {
      baseUrl: api.baseUrl,
      token: await tokenOf(own.anonymous, noisy),
      jobId: `ingest-${await paste(noisy)}-1`,
      colleagueId: (await aColleague(own, noisy)).userId,
      evaluationPath: startPath(await anEvaluableVersion(noisy)),
      hostileEndpoint: `http://${placeOf(endless)}`,
      hasUploads,
    };
    const requests = [...(await ordinaryRequests(quiet)), () => tokenOf(own.anonymous.at(api.baseUrl), quiet)];
    await timesOf(requests, 3);
    const idle = percentile(await timesOf(requests, rounds), 0.95);

    const script = new URL('../support/noisy-tenant.ts', import.meta.url);
    const neighbour = fork(script, { env: { ...process.env, NOISY_TENANT: JSON.stringify(task) } });
    await delay(warmUpMs);
    const busy = percentile(await timesOf(requests, rounds), 0.95);
    const told = once(neighbour, 'message');
    neighbour.send('stop');
    const [answers] = (await told) as [NoisyAnswers];
    note(`p95 of eleven requests ${idle.toFixed(0)} ms alone, ${busy.toFixed(0)} ms beside it`);
    for (const [kind, counts] of Object.entries(answers)) note(`${kind}: ${JSON.stringify(counts)}`);
    return busy / idle;
  }

  it('lets the requests of another take at most three times as long, within its memory', async () => {
    const memoryBefore = await residentBytes(api);
    expect(await slowdownBy({ hasUploads: false }), 'times as long').at.most(3);
    const grownBytes = (await residentBytes(api)) - memoryBefore;
    note(`the API process grew by ${(grownBytes / 1024 ** 2).toFixed(0)} MB`);
    expect(grownBytes, 'memory').at.most(memoryLimitBytes);
  });

  // No limit of ours: what is left is the disk, which both write to, and a core, which both take.
  it('goes on answering another when it uploads files besides as fast as it can', async () => {
    note(`${(await slowdownBy({ hasUploads: true })).toFixed(1)} times as long`);
  });
});

const placeOf = (server: ReturnType<typeof createServer>) => `127.0.0.1:${(server.address() as AddressInfo).port}`;

async function paste(member: Member): Promise<string> {
  const fields = { name: 'n', content: 'A fox is quick.', source_format: 'text' };
  return ((await member.post('/documents/paste', fields, 201)).body as { id: string }).id;
}

async function tokenOf(anonymous: ApiClient, { email, password }: Member): Promise<string> {
  const { body } = await anonymous.post('/auth/login', { username: email, password }, 200);
  return (body as { access_token: string }).access_token;
}

/** Of a user with a small dataroom. */
async function ordinaryRequests(member: Member): Promise<(() => Promise<unknown>)[]> {
  const documentId = await paste(member);
  const draft = await aDraft(member);
  const name = () => crypto.randomUUID();
  return [
    () => member.get('/entity/me/profile', 200),
    () => member.get('/folders', 200),
    () => member.get('/documents?limit=20', 200),
    () => member.get(`/documents/${documentId}`, 200),
    () => member.get('/documents/search?q=fox', 200),
    () => member.get(`/jobs/ingest-${documentId}-1`, 200),
    () => member.get('/chat', 200),
    () => member.get(`/agent-drafts/${draft.id}`, 200),
    () => member.post('/documents/paste', { name: name(), content: name(), source_format: 'text' }, 201),
    () => member.post('/rag/chunks/preview', { content: 'A fox is quick.' }, 200),
  ];
}

/** Milliseconds of each request, one after the other. */
async function timesOf(requests: readonly (() => Promise<unknown>)[], times: number): Promise<number[]> {
  const taken: number[] = [];
  for (let round = 0; round < times; round += 1) {
    // As a person does, and within the limits of one.
    await delay(1_000);
    for (const request of requests) {
      const beganMs = performance.now();
      await request();
      taken.push(performance.now() - beganMs);
    }
  }
  return taken;
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0;
}

async function residentBytes({ pid }: ServiceProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

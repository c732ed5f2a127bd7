import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { type ServiceProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { startMeasuredService } from '#test/support/metrics-story.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { startedSteps } from '#test/support/workflow-run.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

const id = z.string().min(1);
const count = z.number().int().nonnegative();
const text = z.string();

/** Fields that share a type. */
const each = <Schema extends z.ZodType>(schema: Schema, names: string) =>
  Object.fromEntries(names.split(' ').map((name) => [name, schema]));

/** The fields that every line has. */
const always = {
  level: z.union([20, 30, 40, 50, 60].map((level) => z.literal(level))),
  time: z.number().int().positive(),
  role: z.enum(['api', 'worker', 'admin', 'codec', 'test']),
  msg: z.string().min(1),
};

/** The other fields that lines of API and worker may have, by the names that docs/logs.md explains. */
const others: Record<string, z.ZodType> = {
  trace_id: z.string().regex(/^[\da-f]{32}$/),
  span_id: z.string().regex(/^[\da-f]{16}$/),
  route: z.string().startsWith('/').nullable(),
  status: z.number().int(),
  clientLeft: z.literal(true),
  // An error as pino writes it; those of the service have a code.
  err: z.looseObject({ type: z.string(), message: z.string(), stack: z.string() }),
  target: text.nullable(),
  metricsPort: count.nullable(),
  isLocal: z.boolean(),
  ...each(z.unknown(), 'error detail'),
  ...each(id.nullable(), 'requestId orgId actorId'),
  ...each(z.array(id), 'chunkIds models queues'),
  ...each(id, 'userId jobId documentId chatId connectionId streamId blobKey chunkId id model evaluatorModel provider'),
  ...each(id, 'sweep action deploymentName buildId'),
  ...each(count, 'durationMs round rounds count addresses cases calls checked orphaned port delayMs pid attempt'),
  ...each(text, 'method code reason truncatedBy pass kind host sdkComponent namespace taskQueue'),
  ...each(text, 'workflowId workflowType runId activityId activityType'),
};

const logFieldNames = Object.keys({ ...always, ...others });

/** A process that has lost lines says so before it knows its role. */
const lostLines = z.strictObject({ level: z.literal(40), time: always.time, pid: count, msg: always.msg });

const logLine = z.union([z.strictObject({ ...always, ...z.strictObject(others).partial().shape }), lostLines]);

const statusOf = async (url: string, headers = {}): Promise<number> => (await fetch(url, { headers })).status;

describe('a running service', function () {
  this.timeout(180_000);
  let service: Awaited<ReturnType<typeof startMeasuredService>>;

  before(async () => {
    service = await startMeasuredService();
    await service.story();
    const { ada } = service;
    await ada.upload('/documents', { name: 'broken.pdf', content: '%PDF-1.7 and no more' }, 201);
    await ada.raw('/documents/nobody-has-this');
    await ada.raw('/no/such/path?with=a-word-that-nobody-may-log');
  });
  after(() => service.close());

  it('serves metrics on a separate port, and not on the port of the API', async () => {
    const page = await fetch(service.metricsUrl);
    expect(page.headers.get('content-type')).to.match(/^text\/plain; version=0\.0\.4/);
    expect(await page.text()).to.include(
      'acs_http_request_duration_seconds_count{method="POST",route="/chat/stream",status="2xx"} 1',
    );
    expect(await statusOf(`${service.api.baseUrl}/metrics`)).equal(404);
    expect(await statusOf(new URL('/healthz', service.metricsUrl).href)).equal(404);
  });

  it('has no metric label that contains an id, a name or an address', async () => {
    const text = (await service.scrape(0)).map((scrape) => scrape.text).join('\n');
    const labels = text.split('\n').filter((line) => line.startsWith('acs_'));
    expect(labels.filter((line) => /[\da-f]{8}-[\da-f]{4}|@|nobody/.test(line))).to.deep.equal([]);
    expect(text).to.include('route="none"');
  });

  it('serves health, readiness and metrics for each worker', async () => {
    expect(await (await fetch(`${service.workerUrl}/healthz`)).json()).to.deep.equal({ status: 'ok' });
    expect(await (await fetch(`${service.workerUrl}/readyz`)).json()).to.deep.equal({ status: 'ready' });
    const metrics = await (await fetch(`${service.workerUrl}/metrics`)).text();
    for (const name of ['temporal_worker_task_slots_available', 'temporal_num_pollers', 'temporal_sticky_cache_size']) {
      expect(metrics).to.include(`\n${name}{`);
    }
    expect(await statusOf(`${service.workerUrl}/`)).equal(404);
    expect((await fetch(`${service.workerUrl}/metrics`, { method: 'POST' })).status).equal(405);
  });

  it('writes log lines of stable fields, which the docs explain', () => {
    for (const { log } of [service.api, service.worker]) {
      const lines = log().trimEnd().split('\n');
      expect(lines).not.empty;
      for (const line of lines) {
        const { error } = logLine.safeParse(JSON.parse(line));
        expect(error?.message, line).equal(undefined);
      }
    }
    expect(service.api.log()).not.include('a-word-that-nobody-may-log');
    const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'logs.md'), 'utf8');
    expect(logFieldNames.filter((name) => !page.includes(`\`${name}\``))).to.deep.equal([]);
  });
});

describe('a worker that shuts down', function () {
  this.timeout(120_000);
  let stack: Stack;
  let worker: ServiceProcess;
  before(async () => {
    stack = await startStack({}, { workers: false });
  });
  after(async () => {
    await worker.stop();
    await stack.close();
  });

  it('is alive but no longer ready while its last steps end', async () => {
    const [port] = await findFreePorts(1);
    const workerUrl = `http://127.0.0.1:${port}`;
    const faults = { NODE_ENV: 'test', FAULTS: 'ingestAtOnce:before:delay:15000' };
    worker = await startWorkerProcess(stack, { WORKER_PORT: String(port), ...faults });
    const { jobId } = await uploadText(await stack.signUp(), 'Text.');
    const run = stack.container.temporal.client.workflow.getHandle(jobId);
    await until('the step is under way', async () => (await startedSteps(run)).length > 0);
    expect(await statusOf(`${workerUrl}/readyz`)).equal(200);
    process.kill(worker.pid, 'SIGTERM');
    await until('it drains', async () => (await statusOf(`${workerUrl}/readyz`)) === 503);
    expect(await statusOf(`${workerUrl}/healthz`)).equal(200);
    await worker.ended;
  });
});

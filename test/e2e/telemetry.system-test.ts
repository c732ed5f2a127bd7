import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { z } from 'zod';
import { metricCatalog } from '#src/contracts/metrics.ts';
import {
  anEvaluableVersion,
  anIngestedDocument,
  aPublishedAgent,
  startPath,
  streamAnswer,
} from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member } from '#test/support/client.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { skip } from '#test/support/skip.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { startedSteps } from '#test/support/workflow-run.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', '..', path), 'utf8');

const id = z.string().min(1);
const count = z.number().int().nonnegative();
const text = z.string();

const each = <Schema extends z.ZodType>(schema: Schema, names: string) =>
  Object.fromEntries(names.split(' ').map((name) => [name, schema]));

const always = {
  level: z.enum(['debug', 'info', 'warn', 'error', 'fatal']),
  time: z.iso.datetime(),
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
  // An error as pino writes it; those of the catalogue have a code in place of a stack.
  err: z.looseObject({ type: z.string(), message: z.string() }),
  target: text.nullable(),
  metricsPort: count.nullable(),
  isLocal: z.boolean(),
  ...each(z.unknown(), 'error detail'),
  ...each(id.nullable(), 'requestId orgId actorId'),
  ...each(z.array(id), 'chunkIds models queues'),
  ...each(id, 'userId jobId documentId chatId connectionId streamId blobKey chunkId id model evaluatorModel provider'),
  ...each(id, 'sweep action deploymentName buildId'),
  ...each(
    count,
    'durationMs round rounds count addresses cases calls checked orphaned port delayMs pid attempt latencyMs inputTokens completionTokens citations',
  ),
  ...each(text, 'method code reason truncatedBy pass kind host sdkComponent namespace taskQueue'),
  ...each(text, 'workflowId workflowType runId activityId activityType'),
};

/** A process that has lost lines says so before it knows its role. */
const lostLines = z.strictObject({ level: z.literal('warn'), time: always.time, pid: count, msg: always.msg });

const logLine = z.union([z.strictObject({ ...always, ...z.strictObject(others).partial().shape }), lostLines]);

const statusOf = async (url: string, init: RequestInit = {}): Promise<number> => (await fetch(url, init)).status;

type Scrape = { atMs: number; labels: { job: string; instance: string }; text: string };

describe('a running service', function () {
  this.timeout(240_000);
  let model: ScriptedModel;
  let stack: Stack;
  let api: Awaited<ReturnType<typeof startApiProcess>>;
  let worker: ServiceProcess;
  let ada: Member;
  let metricsUrl: string;
  let workerUrl: string;
  let scrapes: Scrape[];

  before(async () => {
    const [metricsPort, workerPort] = await findFreePorts(2);
    [metricsUrl, workerUrl] = [`http://127.0.0.1:${metricsPort}/metrics`, `http://127.0.0.1:${workerPort}`];
    model = await startScriptedModel();
    const models = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl, EVAL_MODEL: 'judge' };
    stack = await startStack(models, { workers: false });
    [api, worker] = await Promise.all([
      startApiProcess(stack, { METRICS_PORT: String(metricsPort) }),
      startWorkerProcess(stack, { WORKER_PORT: String(workerPort) }),
    ]);
    const signedUp = await stack.signUp();
    ada = { ...signedUp, ...signedUp.at(api.baseUrl) };

    // Two scrapes, because a rate needs two.
    await useEverything();
    const first = await scrape(1_700_000_000_000);
    await useEverything();
    scrapes = [...first, ...(await scrape(1_700_000_060_000))];
    await ada.upload('/documents', { name: 'broken.pdf', content: '%PDF-1.7 and no more' }, 201);
    await ada.raw('/documents/nobody-has-this');
    await ada.raw('/no/such/path?with=a-word-that-nobody-may-log');
  });
  after(async () => {
    await Promise.all([api.stop(), worker.stop()]);
    await stack.close();
    await model.close();
  });

  /** Uploads a document, streams an answer, and evaluates a version. */
  async function useEverything(): Promise<void> {
    model.behave(() => ({ kind: 'answer', text: 'The loan costs one percent.' }));
    await anIngestedDocument(ada, 'Loans', 'A loan of the bank costs one percent of interest for each month.');
    const agentId = await aPublishedAgent(ada);
    await streamAnswer(ada, { agent_id: agentId, message: 'What does a loan cost?' });
    model.behave(judgeWell());
    const of = await anEvaluableVersion(ada, {
      golden_cases: [{ id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' }],
    });
    await ada.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=60' });
    const open = () => stack.container.db('jobs').whereNull('finishedAt');
    await until('nothing is open', async () => (await open()).length === 0);
  }

  /** Reads the metrics of both processes, as Prometheus does. */
  function scrape(atMs: number): Promise<Scrape[]> {
    const pages = { 'acs-api': metricsUrl, 'acs-worker': `${workerUrl}/metrics` };
    const all = Object.entries(pages).map(async ([job, url]) => {
      const page = await (await fetch(url)).text();
      // What Prometheus adds to each page.
      return { atMs, labels: { job, instance: new URL(url).host }, text: `${page}\nup 1\n` };
    });
    return Promise.all(all);
  }

  it('serves metrics on a separate port, and not on the port of the API', async () => {
    const page = await fetch(metricsUrl);
    expect(page.headers.get('content-type')).match(/^text\/plain; version=0\.0\.4/);
    expect(await page.text()).include(
      'acs_http_request_duration_seconds_count{method="POST",route="/chat/stream",status="2xx"} 2',
    );
    expect(await statusOf(`${api.baseUrl}/metrics`)).equal(404);
    expect(await statusOf(new URL('/healthz', metricsUrl).href)).equal(404);
  });

  it('has no metric label that contains an id, a name or an address', async () => {
    const lines = (await scrape(0)).flatMap((page) => page.text.split('\n')).filter((line) => line.startsWith('acs_'));
    expect(lines.filter((line) => /[\da-f]{8}-[\da-f]{4}|@|nobody/.test(line))).deep.equal([]);
    expect(lines.join()).include('route="none"');
  });

  it('serves health, readiness and metrics for each worker', async () => {
    expect(await (await fetch(`${workerUrl}/healthz`)).json()).deep.equal({ status: 'ok' });
    expect(await (await fetch(`${workerUrl}/readyz`)).json()).deep.equal({ status: 'ready' });
    const metrics = await (await fetch(`${workerUrl}/metrics`)).text();
    for (const name of ['temporal_worker_task_slots_available', 'temporal_num_pollers', 'temporal_sticky_cache_size']) {
      expect(metrics).include(`\n${name}{`);
    }
    expect(await statusOf(`${workerUrl}/`)).equal(404);
    expect(await statusOf(`${workerUrl}/metrics`, { method: 'POST' })).equal(405);
  });

  it('writes log lines of stable fields, which the docs explain', () => {
    for (const { log } of [api, worker]) {
      const lines = log().trimEnd().split('\n');
      expect(lines).not.empty;
      for (const line of lines) {
        const { error } = logLine.safeParse(JSON.parse(line));
        expect(error?.message, line).equal(undefined);
      }
    }
    expect(api.log()).not.include('a-word-that-nobody-may-log');
    const page = read('docs/logs.md');
    expect(Object.keys({ ...always, ...others }).filter((name) => !page.includes(`\`${name}\``))).deep.equal([]);
  });

  describe('has a Grafana dashboard and alert rules that', () => {
    let names: string[];
    let queries: Evaluated[];
    let alerts: Evaluated[];
    let conditions: Evaluated[];

    before(async function () {
      const program = process.env.TEST_PROMQL_PROGRAM;
      if (program === undefined) return skip(this, 'no Go');
      const { panels }: Dashboard = JSON.parse(read('deploy/grafana/agent-conversation-service.json'));
      const panelQueries = panels
        .flatMap(({ targets = [] }) => targets)
        .map(({ expr }) => expr.replaceAll('$__rate_interval', '5m'));
      const rules = read('deploy/prometheus/alerts.yml');
      ({ names, queries, alerts } = await evaluate(program, { scrapes, queries: panelQueries, rules }));
      // Whether an alert would ever fire: the same without its bound has to give a value.
      const unbounded = alerts.map(({ query }) => query.replace(/\s*(?:>|==)\s*[\d.]+\s*$/, ''));
      conditions = (await evaluate(program, { scrapes, queries: unbounded, rules: 'groups: []' })).queries;
    });

    it('query only time series that a running service has', () => {
      expect(queries.length).greaterThan(40);
      expect(queries.filter(({ error }) => error !== undefined)).deep.equal([]);
      const empty = queries.filter(({ query, series }) => series === 0 && !mayBeEmpty(query));
      expect(empty.map(({ query }) => query)).deep.equal([]);
    });

    it('fire no alert while all is well, although every alert condition finds data', () => {
      expect(alerts.filter(({ error, series }) => error !== undefined || series > 0)).deep.equal([]);
      const blind = conditions.filter(({ query, series, error }) => error || (series === 0 && !mayBeEmpty(query)));
      expect(blind).deep.equal([]);
    });

    it('use only metrics that exist, and find every metric of the catalogue exported by the service', () => {
      const exported = new Set(names.map(withoutSuffix));
      const known = new Set([...exported, ...Object.keys(metricCatalog), ...quiet].map(withoutSuffix));
      const used = [...queries, ...alerts].map(({ query }) => query.match(/\b(?:acs|temporal|nodejs|process)_\w+/g));
      const unknown = used.flatMap((matches) => matches ?? []).filter((name) => !known.has(withoutSuffix(name)));
      expect(unknown).deep.equal([]);
      const missing = Object.keys(metricCatalog).filter((name) => !exported.has(name) && !quiet.includes(name));
      expect(missing).deep.equal([]);
    });

    it('are explained in the docs, and use the job names of the example scrape configuration', () => {
      const page = read('docs/telemetry.md');
      expect(alerts.map(({ alert }) => alert).filter((alert) => !page.includes(`\`${alert}\``))).deep.equal([]);
      const jobs = [...read('deploy/prometheus/scrape.yml').matchAll(/job_name: (\S+)/g)].map(([, job]) => job);
      expect(jobs).deep.equal(['acs-api', 'acs-worker']);
    });
  });
});

/** Metrics without a series while nothing is wrong. Queries of them have none either. */
const quiet = [
  ...['acs_rate_limited_total', 'acs_jobs_open', 'acs_jobs_parked', 'acs_connector_call_duration_seconds'],
  ...['acs_activity_failures_total', 'acs_activity_retries_total', 'acs_sweep_failures_total'],
  'temporal_workflow_failed_total',
];
/** Selectors without a series while nothing is wrong. */
const quietSeries = /status="5xx"|outcome!="ok"|outcome!~"ok\|(?:cancelled|interrupted)"|outcome=~"outage/;
const mayBeEmpty = (query: string) => quietSeries.test(query) || quiet.some((name) => query.includes(name));

type Evaluated = { query: string; alert?: string; error?: string; series: number };
type Evaluation = { queries: Evaluated[]; alerts: Evaluated[]; names: string[] };
type Dashboard = { panels: { targets?: { expr: string }[] }[] };

/** Evaluates queries and alert rules by Prometheus' own engine. */
function evaluate(program: string, input: { scrapes: Scrape[]; queries: string[]; rules: string }) {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(input));
  return json(child.stdout) as Promise<Evaluation>;
}

/** @returns the name of the histogram that a series is a part of */
const withoutSuffix = (name: string) => name.replace(/_(?:bucket|sum|count)$/, '');

describe('a worker that shuts down', function () {
  this.timeout(120_000);
  let stack: Stack;
  let worker: ServiceProcess | undefined;
  before(async () => {
    stack = await startStack({}, { workers: false });
  });
  after(async () => {
    await worker?.stop();
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

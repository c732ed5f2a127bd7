import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { metricCatalog } from '#src/contracts/metrics.ts';
import { type Scrape, startMeasuredService } from '#test/support/metrics-story.ts';
import { skip } from '#test/support/skip.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const read = (path: string): string => readFileSync(join(deploy, path), 'utf8');

/** Metrics without a series while nothing is wrong. Queries of them have none either. */
const quiet = [
  ...['acs_rate_limited_total', 'acs_jobs_open', 'acs_jobs_parked', 'acs_connector_call_duration_seconds'],
  ...['acs_activity_failures_total', 'acs_activity_retries_total', 'acs_sweep_failures_total'],
  'temporal_workflow_failed_total',
];
/** Selectors without a series while nothing is wrong. */
const quietSeries = /status="5xx"|outcome!="ok"|outcome!~"ok\|(?:cancelled|interrupted)"|outcome=~"outage/;

type Answer = { query: string; alert?: string; error?: string; series: number };
type Dashboard = { panels: { title: string; targets?: { expr: string }[] }[] };

describe('the Grafana dashboard and the alert rules', function () {
  this.timeout(240_000);
  let names: string[];
  let queries: Answer[];
  let alerts: Answer[];
  let conditions: Answer[];

  before(async function () {
    const program = process.env.TEST_PROMQL_PROGRAM;
    if (program === undefined) return skip(this, 'no Go');
    const scrapes = await scrapesOfAStory();
    const { panels } = JSON.parse(read('grafana/agent-conversation-service.json')) as Dashboard;
    const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const rules = read('prometheus/alerts.yml');
    const found = await ask(program, { scrapes, queries: asked.map(withInterval), rules });
    ({ names, queries, alerts } = found);
    // Whether an alert would ever fire: the same without its bound has to give a value.
    const unbounded = alerts.map(({ query }) => query.replace(/\s*(?:>|==)\s*[\d.]+\s*$/, ''));
    conditions = (await ask(program, { scrapes, queries: unbounded, rules: 'groups: []' })).queries;
  });

  it('query only time series that a running service has', () => {
    expect(queries.length).greaterThan(40);
    expect(queries.filter(({ error }) => error !== undefined)).to.deep.equal([]);
    const empty = queries.filter(({ query, series }) => series === 0 && !mayBeEmpty(query));
    expect(empty.map(({ query }) => query)).to.deep.equal([]);
  });

  it('fire no alert while all is well, although every alert condition finds data', () => {
    expect(alerts.filter(({ error }) => error !== undefined)).to.deep.equal([]);
    expect(alerts.filter(({ series }) => series > 0)).to.deep.equal([]);
    const blind = conditions.filter(({ query, series, error }) => error || (series === 0 && !mayBeEmpty(query)));
    expect(blind).to.deep.equal([]);
  });

  it('use only metrics that exist', () => {
    const known = new Set([...names, ...quiet, 'up'].map(withoutSuffix));
    const used = [...queries, ...alerts].flatMap(
      ({ query }) => query.match(/\b(?:acs|temporal|nodejs|process)_\w+/g) ?? [],
    );
    const unknown = used.map(withoutSuffix).filter((name) => !known.has(name) && !(name in metricCatalog));
    expect([...new Set(unknown)]).to.deep.equal([]);
  });

  it('find every metric of the catalogue exported by the service', () => {
    const there = new Set(names.map(withoutSuffix));
    const missing = Object.keys(metricCatalog).filter((name) => !there.has(name) && !quiet.includes(name));
    expect(missing).to.deep.equal([]);
  });

  it('are explained in the docs, and use the job names of the example scrape configuration', () => {
    const page = readFileSync(join(deploy, '..', 'docs', 'telemetry.md'), 'utf8');
    expect(alerts.map(({ alert }) => alert).filter((alert) => !page.includes(`\`${alert}\``))).deep.equal([]);
    const jobs = [...read('prometheus/scrape.yml').matchAll(/job_name: (\S+)/g)].map(([, job]) => job);
    expect(jobs).deep.equal(['acs-api', 'acs-worker']);
  });
});

/** Two scrapes, because a rate needs two. */
async function scrapesOfAStory(): Promise<Scrape[]> {
  const service = await startMeasuredService();
  try {
    await service.story();
    const first = await service.scrape(1_700_000_000_000);
    await service.story();
    const second = await service.scrape(1_700_000_060_000);
    // What Prometheus adds to each page.
    return [...first, ...second].map((scrape) => ({ ...scrape, text: `${scrape.text}\nup 1\n` }));
  } finally {
    await service.close();
  }
}

type Question = { scrapes: Scrape[]; queries: string[]; rules: string };

function ask(program: string, question: Question): Promise<{ queries: Answer[]; alerts: Answer[]; names: string[] }> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(question));
  return json(child.stdout) as ReturnType<typeof ask>;
}

const withInterval = (query: string) => query.replaceAll('$__rate_interval', '5m');
const mayBeEmpty = (query: string) => quietSeries.test(query) || quiet.some((name) => query.includes(name));
/** @returns the name of the histogram that a series is a part of */
const withoutSuffix = (name: string) => name.replace(/_(?:bucket|sum|count)$/, '');

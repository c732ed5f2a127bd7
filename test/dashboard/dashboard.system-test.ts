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

/** Metrics without a series as long as nothing is wrong, or nobody does it. What uses them has none either. */
const quiet = [
  'acs_rate_limited_total',
  'acs_jobs_open',
  'acs_jobs_parked',
  'acs_activity_failures_total',
  'acs_activity_retries_total',
  'acs_connector_call_duration_seconds',
  'acs_sweep_failures_total',
  'temporal_workflow_failed_total',
];
/** The same of some of a metric's series. */
const quietSeries = /status="5xx"|outcome!="ok"|outcome!~"ok\|(?:cancelled|interrupted)"|outcome=~"outage/;

type Answer = { query: string; alert?: string; error?: string; series: number };
type Dashboard = { panels: { title: string; targets?: { expr: string }[] }[] };

describe('the dashboard and the alerts', function () {
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

  it('ask what a running service answers', () => {
    expect(queries.length).greaterThan(40);
    expect(queries.filter(({ error }) => error !== undefined)).to.deep.equal([]);
    const empty = queries.filter(({ query, series }) => series === 0 && !mayBeEmpty(query));
    expect(empty.map(({ query }) => query)).to.deep.equal([]);
  });

  it('alert of nothing while all is well, by conditions that have a value', () => {
    expect(alerts.filter(({ error }) => error !== undefined)).to.deep.equal([]);
    expect(alerts.filter(({ series }) => series > 0)).to.deep.equal([]);
    const blind = conditions.filter(({ query, series, error }) => error || (series === 0 && !mayBeEmpty(query)));
    expect(blind).to.deep.equal([]);
  });

  it('name only what there is', () => {
    const known = new Set([...names, ...quiet, 'up'].map(withoutSuffix));
    const used = [...queries, ...alerts].flatMap(
      ({ query }) => query.match(/\b(?:acs|temporal|nodejs|process)_\w+/g) ?? [],
    );
    const unknown = used.map(withoutSuffix).filter((name) => !known.has(name) && !(name in metricCatalog));
    expect([...new Set(unknown)]).to.deep.equal([]);
  });

  it('are fed by every metric of the catalogue', () => {
    const there = new Set(names.map(withoutSuffix));
    const missing = Object.keys(metricCatalog).filter((name) => !there.has(name) && !quiet.includes(name));
    expect(missing).to.deep.equal([]);
  });

  it('say in the docs what to do for each alert', () => {
    const page = readFileSync(join(deploy, '..', 'docs', 'telemetry.md'), 'utf8');
    expect(alerts.map(({ alert }) => alert).filter((alert) => !page.includes(`\`${alert}\``))).to.deep.equal([]);
  });

  it('go by the jobs of the example of a scrape', () => {
    const jobs = [...read('prometheus/scrape.yml').matchAll(/job_name: (\S+)/g)].map(([, job]) => job);
    expect(jobs).to.deep.equal(['acs-api', 'acs-worker']);
  });
});

/** Two looks, for what is counted shows between two. */
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

async function ask(
  program: string,
  question: { scrapes: Scrape[]; queries: string[]; rules: string },
): Promise<{ queries: Answer[]; alerts: Answer[]; names: string[] }> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(question));
  return (await json(child.stdout)) as Awaited<ReturnType<typeof ask>>;
}

function withInterval(query: string): string {
  return query.replaceAll('$__rate_interval', '5m');
}

function mayBeEmpty(query: string): boolean {
  return quietSeries.test(query) || quiet.some((name) => query.includes(name));
}

/** Of a histogram's parts the name of the whole. */
function withoutSuffix(name: string): string {
  return name.replace(/_(?:bucket|sum|count)$/, '');
}

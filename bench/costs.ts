// `npm run bench:costs [-- --write]` measures what a document, a chat round, an evaluated case and a synced file cost in
// every process and store. `--write` writes the tables into docs/capacity.md.
import { cpus, loadavg } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type RunTotals, readRuns } from './costs/actions.ts';
import { judgeModel, startFakeJudge } from './costs/fake-judge.ts';
import { needsTables } from './costs/needs.ts';
import { replaceSections } from './costs/sections.ts';
import { type Snapshot, takeSnapshot } from './costs/snapshot.ts';
import { costTables, type UnitCost } from './costs/tables.ts';
import { chatWork, documentWork, evaluationWork, startBucket, syncWork, type Work } from './costs/work.ts';
import { type MeasuredProduct, processNames, startProduct } from './measured-product.ts';

const { values } = parseArgs({
  options: { write: { type: 'boolean', default: false }, scale: { type: 'string', default: '1' } },
});
/** `--scale 0.1` measures a tenth of the units, to try the script. */
const scaled = (units: number) => Math.max(1, Math.round(units * Number(values.scale)));

const idleMs = 20_000;
/** Longest time after a unit in which the product publishes, dispatches and cleans up for it. */
const settleMs = 3_000;
const limits = {
  TIER_LIMITS: '{"free":{"documents":100000,"storageBytes":10000000000}}',
  RATE_LIMIT_CHAT: 'off',
  RATE_LIMIT_UPLOAD: 'off',
  RATE_LIMIT_READ: 'off',
  RATE_LIMIT_WRITE: 'off',
  CONCURRENT_REQUESTS: 'off',
};

type Idle = { cpuMsPerSecond: Record<string, number>; memoryMb: Record<string, number> };

const { files, bucket } = await startBucket(scaled(300));
const judge = await startFakeJudge();
const loadBefore = loadavg()[0] ?? Number.NaN;
try {
  const first = await measureProduct({ ...limits, EGRESS_ALLOW: bucket.place }, async (product, measure) => {
    const [texts, pdfs] = await documentWork(product, { texts: scaled(200), pdfs: scaled(40) });
    const costs = [await measure(texts), await measure(pdfs)];
    costs.push(await measure(await chatWork(product, scaled(40))));
    for (const work of await syncWork(product, files, bucket)) costs.push(await measure(work));
    return costs;
  });
  const provider = { OPENAI_BASE_URL: judge.baseUrl, OPENAI_API_KEY: 'local', CHAT_MODEL: judgeModel };
  const second = await measureProduct({ ...limits, ...provider, EVAL_MODEL: judgeModel }, async (product, measure) => {
    const costs: UnitCost[] = [];
    for (const work of await evaluationWork(product, { plain: scaled(5), anchored: scaled(2) }))
      costs.push(await measure(work));
    return costs;
  });
  const machine =
    `Measured on ${cpus().length} cores (${cpus()[0]?.model ?? 'unknown CPU'}), node ${process.versions.node}, ` +
    `on ${new Date().toISOString().slice(0, 10)}; load of the machine before: ${loadBefore.toFixed(1)}.`;
  const costs = [...first.costs, ...second.costs];
  const sections = {
    costs: [...costTables(costs, first.idle), '', machine],
    needs: needsTables(costs),
  };
  for (const lines of Object.values(sections)) console.log(`\n${lines.join('\n')}`);
  if (values.write) await replaceSections('docs/capacity.md', sections);
} finally {
  await judge.close();
  await bucket.close();
}

type Measure = (work: Work | undefined) => Promise<UnitCost>;

async function measureProduct(
  settings: Record<string, string>,
  work: (product: MeasuredProduct, measure: Measure) => Promise<UnitCost[]>,
): Promise<{ costs: UnitCost[]; idle: Idle }> {
  const product = await startProduct(settings);
  try {
    await delay(settleMs);
    const idle = await measureIdle(product);
    const costs = await work(product, async (each) => {
      if (each === undefined) throw new TypeError('There is no such work.');
      return measureWork(product, each, idle);
    });
    return { costs, idle };
  } finally {
    await product.stop();
  }
}

async function measureIdle(product: MeasuredProduct): Promise<Idle> {
  const before = await takeSnapshot(product);
  await delay(idleMs);
  const after = await takeSnapshot(product);
  const memory = processNames.map(async (name) => [name, await product.memoryMb(name)] as const);
  return {
    cpuMsPerSecond: Object.fromEntries(
      processNames.map((name) => [name, (1_000 * (after.cpuMs[name] - before.cpuMs[name])) / idleMs]),
    ),
    memoryMb: Object.fromEntries(await Promise.all(memory)),
  };
}

async function measureWork(product: MeasuredProduct, work: Work, idle: Idle): Promise<UnitCost> {
  await delay(settleMs);
  const before = await takeSnapshot(product);
  await work.run();
  const worked = new Date();
  await delay(settleMs);
  const after = await takeSnapshot(product);
  const runs = await readRuns(product.temporal, { since: before.at, until: after.at });
  const totals = work.workflows.map((type) => runs.get(type)).filter((each): each is RunTotals => each !== undefined);
  const sum = (of: keyof RunTotals) => totals.reduce((total, each) => total + each[of], 0);
  console.error(`${work.unit}: ${work.units} in ${((worked.getTime() - before.at.getTime()) / 1_000).toFixed(1)} s`);
  return {
    unit: work.unit,
    units: work.units,
    cpuMs: Object.fromEntries(processNames.map((name) => [name, cpuOf(name, before, after, idle) / work.units])),
    tables: tablesOf(before, after, work.units),
    walBytes: (after.walBytes - before.walBytes) / work.units,
    blobBytes: (after.blobBytes - before.blobBytes) / work.units,
    temporalBytes: (after.temporalBytes - before.temporalBytes) / work.units,
    networkBytes: (after.loopbackBytes - before.loopbackBytes) / work.units,
    runs: sum('runs') / work.units,
    events: sum('events') / work.units,
    historyBytes: sum('historyBytes') / work.units,
    actions: sum('actions') / work.units,
    heartbeats: sum('heartbeats') / work.units,
  };
}

/** CPU time without what the process takes in the same time with nothing to do. */
function cpuOf(name: (typeof processNames)[number], before: Snapshot, after: Snapshot, idle: Idle): number {
  const seconds = (after.at.getTime() - before.at.getTime()) / 1_000;
  return Math.max(0, after.cpuMs[name] - before.cpuMs[name] - seconds * (idle.cpuMsPerSecond[name] ?? 0));
}

function tablesOf(before: Snapshot, after: Snapshot, units: number): UnitCost['tables'] {
  return [...after.tables].flatMap(([name, { rows, bytes }]) => {
    const earlier = before.tables.get(name) ?? { rows: 0, bytes: 0 };
    const grown = { name, rows: (rows - earlier.rows) / units, bytes: (bytes - earlier.bytes) / units };
    return grown.rows > 0 || grown.bytes > 0 ? [grown] : [];
  });
}

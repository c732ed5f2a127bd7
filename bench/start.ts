// `npm run bench:start [-- warm cold]` measures the time from `npm start` to the first request that is served (P13).
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { answersOk } from '../scripts/launchers/http-probe.ts';
import { dieWithParent } from '../scripts/supervisor/parent-death.ts';
import { chooseFreePorts } from './measured-product.ts';
import { report, reportSkipped, roundsOf } from './report.ts';

const rounds = roundsOf(5);
const goals = { warmSeconds: 4, coldSeconds: 60 };
const pollMs = 10;
const timeoutMs = 300_000;

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
const wanted = process.argv.slice(2);
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);
const folder = await mkdtemp(join(tmpdir(), 'bench-start-'));
try {
  if (isWanted('warm')) await measureWarm();
  if (isWanted('cold')) await measureCold();
  console.log(
    `node ${process.versions.node}, ${cpus()[0]?.model}, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}`,
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** Starts this checkout again and again on the same data folder; the first start creates the folder. */
async function measureWarm(): Promise<void> {
  const dataDir = join(folder, 'data');
  const first = await start(root, dataDir);
  const all: Awaited<ReturnType<typeof start>>[] = [];
  for (let round = 0; round < rounds; round += 1) all.push(await start(root, dataDir));
  const served = { goal: 'P13', unit: 's', atMost: goals.warmSeconds };
  report({ ...served, what: 'warm `npm start` to the first served request', rounds: all.map((each) => each.served) });
  report({ goal: 'P13', what: 'the same to ready', unit: 's', rounds: all.map((each) => each.ready) });
  report({ goal: 'P13', what: 'the same with a new data folder, to the first', unit: 's', rounds: first.served });
}

/** Clones the last commit, so that packages are installed; the first clone fills npm's cache and is not counted. */
async function measureCold(): Promise<void> {
  const seconds: number[] = [];
  for (let round = 0; round < 2; round += 1) {
    const clone = join(folder, `clone-${round}`);
    const startedAt = performance.now();
    await run('git', ['clone', '--quiet', root, clone]);
    const cloned = (performance.now() - startedAt) / 1_000;
    try {
      seconds.push(cloned + (await start(clone, join(clone, '.data'))).served);
    } catch (error) {
      return reportSkipped(`P13, a cold clone: ${error instanceof Error ? error.message : error}`);
    } finally {
      await rm(clone, { recursive: true, force: true });
    }
  }
  const what = 'clone and `npm start` with warm package caches, to the first served request';
  report({ goal: 'P13', what, unit: 's', rounds: seconds.slice(1), atMost: goals.coldSeconds });
}

/** Runs `npm start` until it is ready. Returns the seconds to the first answer of the API and to readiness. */
async function start(checkout: string, dataDir: string): Promise<{ served: number; ready: number }> {
  const chosen = await chooseFreePorts();
  const env = { ...process.env, ...chosen, DATA_DIR: dataDir, LOG_LEVEL: 'warn' };
  const [program, ...args] = dieWithParent(['npm', 'start', '--silent'], 'SIGTERM');
  const startedAt = performance.now();
  const child = spawn(program, args, { cwd: checkout, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let messages = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    messages += text;
  });
  const exit = once(child, 'exit');
  const untilOk = async (path: string): Promise<number> => {
    while (!(await answersOk(`http://127.0.0.1:${chosen.PORT}${path}`).catch(() => false))) {
      if (child.exitCode !== null || performance.now() - startedAt > timeoutMs)
        throw new Error(`npm start did not answer ${path}: ${messages.trim().split('\n').at(-1)}`);
      await delay(pollMs);
    }
    return (performance.now() - startedAt) / 1_000;
  };
  try {
    return { served: await untilOk('/healthz'), ready: await untilOk('/readyz') };
  } finally {
    child.kill('SIGTERM');
    await exit;
  }
}

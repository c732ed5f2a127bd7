// `npm run bench [-- --quick] [-- P3 P7 search "ingest files"]` runs the benchmarks one after another, keeps their
// figures in bench/results.json, and writes the table and the plot of docs/benchmarks.md. `--quick` replaces no figures of
// a full run.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { dieWithParent } from '../scripts/supervisor/parent-death.ts';
import type { Line } from './report.ts';
import { type BenchmarkRun, readRuns, writePage, writeRuns } from './results.ts';

type Benchmark = {
  name: string;
  /** The goals that it measures. */
  goals?: string[];
  args?: string[];
  /** Arguments for `--quick`. */
  quick?: string[];
  limitMinutes?: number;
  /** Takes too long, or measures no goal: runs only if it is named. */
  isExtra?: true;
};

const benchmarks: Benchmark[] = [
  { name: 'chunking', goals: ['P1'] },
  { name: 'pdf', goals: ['P2'] },
  { name: 'docx', goals: ['P2'] },
  ...['P3', 'P4', 'P9', 'P11'].map((goal) => ({ name: `ingest ${goal}`, goals: [goal] })),
  { name: 'search', goals: ['P5', 'P6'], args: ['80000'], quick: ['3000'] },
  { name: 'http P7', goals: ['P7'] },
  { name: 'http P8', goals: ['P8'] },
  { name: 'http metrics' },
  { name: 'import', goals: ['P10'] },
  { name: 'transfer', goals: ['P12'] },
  { name: 'start', goals: ['P13'] },
  { name: 'chat', goals: ['P14'] },
  { name: 'lists documents', goals: ['P15'], args: ['100000'], quick: ['5000'] },
  { name: 'lists logs', goals: ['P15'], args: ['1000000'], quick: ['20000'] },
  { name: 'spotlight', goals: ['P16'] },
  { name: 'memory', goals: ['P17'], quick: ['--documents', '20'] },
  { name: 'embed' },
  { name: 'alignment' },
  { name: 'ingest files', isExtra: true, limitMinutes: 30 },
  { name: 'reading', args: ['--write'], isExtra: true },
  { name: 'answers', isExtra: true },
  { name: 'retrieval', isExtra: true, limitMinutes: 120 },
  { name: 'judge', isExtra: true, limitMinutes: 120 },
];
const defaultLimitMinutes = 12;

const root = join(import.meta.dirname, '..');
const { values, positionals } = parseArgs({ options: { quick: { type: 'boolean' } }, allowPositionals: true });
/** A full name is that of one benchmark; a goal or a first word can be that of several. */
function named(wanted: string): Benchmark[] {
  const exact = benchmarks.filter(({ name }) => name === wanted);
  if (exact.length > 0) return exact;
  return benchmarks.filter(({ name, goals }) => goals?.includes(wanted) || name.split(' ')[0] === wanted);
}
const unknown = positionals.filter((wanted) => named(wanted).length === 0);
if (unknown.length > 0) {
  const known = benchmarks.map(({ name }) => name).join(', ');
  console.error(`No benchmark measures ${unknown.join(', ')}: use P1 to P17, or one of ${known}.`);
  process.exit(1);
}
const wanted = new Set(positionals.flatMap(named));
const chosen = benchmarks.filter((each) => (wanted.size === 0 ? each.isExtra !== true : wanted.has(each)));

const folder = mkdtempSync(join(tmpdir(), 'bench-results-'));
const failed: string[] = [];
try {
  for (const [index, benchmark] of chosen.entries()) {
    const before = readRuns().find((run) => run.benchmark === benchmark.name);
    const duration = before === undefined ? '' : `, ${(before.seconds / 60).toFixed(1)} minutes the last time`;
    console.log(`\n=== ${benchmark.name} (${index + 1} of ${chosen.length}${duration})\n`);
    const run = await measure(benchmark);
    if (run.failure !== undefined) failed.push(`${run.benchmark}: ${run.failure}`);
    if (values.quick && before !== undefined && !before.isQuick) continue;
    // Written after each benchmark, so that an interrupted run keeps what it measured.
    const others = readRuns().filter((other) => other.benchmark !== run.benchmark);
    const runs = benchmarks.flatMap(({ name }) => [run, ...others].filter(({ benchmark }) => benchmark === name));
    writeRuns(runs);
    writePage(runs);
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(
  `\n${chosen.length - failed.length} of ${chosen.length} benchmarks ended; docs/benchmarks.md has the table.`,
);
for (const line of failed) console.log(`Not measured: ${line}`);
process.exitCode = failed.length === 0 ? 0 : 1;

async function measure(benchmark: Benchmark): Promise<BenchmarkRun> {
  const { name, goals = [], limitMinutes = defaultLimitMinutes } = benchmark;
  const [script, ...part] = name.split(' ');
  const args = [...part, ...((values.quick && benchmark.quick) || benchmark.args || [])];
  const results = join(folder, `${name}.jsonl`);
  const [program, ...command] = dieWithParent(
    [process.execPath, join(import.meta.dirname, `${script}.ts`), ...args],
    'SIGTERM',
  );
  const env = { ...process.env, BENCH_RESULTS: results, ...(values.quick && { BENCH_ROUNDS: '1' }) };
  const startedAt = performance.now();
  const load = loadavg()[0] ?? 0;
  const child = spawn(program, command, { cwd: root, env, stdio: ['ignore', 'inherit', 'pipe'] });
  let messages = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    process.stderr.write(text);
    messages = (messages + text).slice(-10_000);
  });
  let isLate = false;
  // Its services die with it (`dieWithParent`).
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, limitMinutes * 60_000);
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  const lines = readLines(results);
  const failure = isLate ? `stopped after ${limitMinutes} minutes` : reasonOf(code ?? signal, messages);
  return {
    ...{ benchmark: name, goals, date: new Date().toISOString().slice(0, 10), commit: commit() },
    ...{ machine: `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`, load: Number(load.toFixed(1)) },
    ...{ seconds: Math.round((performance.now() - startedAt) / 1_000), ...(values.quick && { isQuick: true }) },
    ...(failure !== undefined && { failure }),
    skipped: lines.flatMap((line) => ('skipped' in line ? [line.skipped] : [])),
    rows: lines.flatMap((line) => ('row' in line ? [line.row] : [])),
    curves: lines.flatMap((line) => ('curve' in line ? [line.curve] : [])),
  };
}

/** The message of the error that ended a benchmark, such as that of a data set that is missing. */
function reasonOf(code: number | string, messages: string): string | undefined {
  if (code === 0) return undefined;
  const error = /^(?:\w*Error|\w*Failure)(?: \[\w+\])?: (.*)$/m.exec(messages)?.[1];
  // The page is committed, so it names files without the folders of this machine.
  return error?.replaceAll(/(?<!\S)\/\S+\//g, '') ?? `it ended with ${code}`;
}

function readLines(path: string): Line[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  } catch {
    // A benchmark that failed early has reported nothing.
    return [];
  }
}

/** The measured commit, with a `+` if files differ from it. */
function commit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  try {
    const changed = git('status', '--porcelain', '--', '.', ':!bench/results.json', ':!docs');
    return `${git('rev-parse', '--short=8', 'HEAD')}${changed === '' ? '' : '+'}`;
  } catch {
    return '';
  }
}

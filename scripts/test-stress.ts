// `npm run test:stress`: finds flaky tests. Runs the everyday tests five times beside two processes that keep the CPU
// busy, once on one core, and once with delayed answers of Temporal to workflow starts. Prints which tests failed in
// which run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { dieWithParent } from './supervisor/parent-death.ts';
import { failedTests } from './test/results.ts';

const RESULTS_DIR = '.data-test';
const SPINNING = 2;

type Run = { name: string; spinning: number; cores: 'all' | 'one'; lateMs: number };

const LATE_MS = 400;

const { values } = parseArgs({ options: { times: { type: 'string', default: '5' } } });
const runs: Run[] = [
  ...Array.from({ length: Number(values.times) }, (_, index) => ({
    name: `busy-${index + 1}`,
    spinning: SPINNING,
    cores: 'all' as const,
    lateMs: 0,
  })),
  { name: 'one-core', spinning: 0, cores: 'one', lateMs: 0 },
  { name: 'late-starts', spinning: 0, cores: 'all', lateMs: LATE_MS },
];

const failures: string[] = [];
for (const { name, spinning, cores, lateMs } of runs) {
  const results = join(RESULTS_DIR, `stress-${name}.jsonl`);
  const spinners = Array.from({ length: spinning }, () => start(['-e', 'for (;;);'], 'ignore'));
  const suite = [join(import.meta.dirname, 'test.ts'), '--results', results];
  const begin = performance.now();
  const [code] = await once(start(suite, 'inherit', { cores, lateMs }), 'exit');
  for (const spinner of spinners) spinner.kill('SIGKILL');
  const failed = failedTests(results);
  const outcome = code === 0 ? 'green' : `RED (${failed.join('; ') || 'no test, see above'})`;
  console.log(`\n${name}: ${outcome}, ${((performance.now() - begin) / 1_000).toFixed(0)} s, ${results}\n`);
  if (code !== 0) failures.push(`${name}: ${outcome}`);
}
for (const failure of failures) console.log(`  ✖ ${failure}`);
console.log(`${runs.length - failures.length} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;

function start(
  args: readonly string[],
  stdio: 'ignore' | 'inherit',
  { cores, lateMs }: Pick<Run, 'cores' | 'lateMs'> = { cores: 'all', lateMs: 0 },
) {
  const pinned = cores === 'one' ? (['taskset', '-c', '0'] as const) : ([] as const);
  const [program, ...rest] = dieWithParent(
    ['env', `TEST_LATE_STARTS_MS=${lateMs}`, ...pinned, process.execPath, ...args],
    'SIGTERM',
  );
  return spawn(program, rest, { stdio });
}

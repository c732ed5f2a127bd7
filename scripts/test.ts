// `npm test [-- test/api/some.test.ts …]`: the checks and every test level on real services, started for this run alone.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runChecks, type Tally } from './checks.ts';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { findTestPorts, startTestServices } from './test-services.ts';

const EVERY_TEST = ['test/**/*.test.ts', 'services/**/*.test.ts'];
/** About half of the time: tests that mostly wait for processes of their own. The others run beside them. */
const OF_PROCESSES = [
  ...['test/faults/**/*.test.ts', 'test/e2e/**/*.test.ts', 'test/workflows/**/*.test.ts', 'test/replay/**/*.test.ts'],
  'services/**/*.test.ts',
];
const NOTHING: Tally = { passed: 0, failed: 0 };
const END_PATIENCE_MS = 15_000;

await exitAfter(async () => {
  const { toolsDir } = readTestServiceSettings(process.env);
  const specs = process.argv.slice(2);
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-test-'));
  const code = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, ending) => {
      const ports = await findTestPorts();
      const [env, checks] = await Promise.all([
        startTestServices({ supervisor, toolsDir, dataDir, ports }),
        // Someone who names a file wants its answer at once.
        specs.length > 0 ? NOTHING : runChecks(ending),
      ]);
      const start = (args: string[], logPath?: string) => runMocha({ args, env, logPath, signal: ending });
      const tests = specs.length > 0 ? [await start(specs)] : await runEveryTest(start, join(dataDir, 'logs'));
      const tallies = [checks, ...tests];
      const passed = tallies.reduce((sum, tally) => sum + tally.passed, 0);
      const failed = tallies.reduce((sum, tally) => sum + tally.failed, 0);
      console.log(`${passed} passed, ${failed} failed`);
      return failed === 0 && passed > 0 ? 0 : 1;
    },
  });
  if (code === 1) console.error(`The services' logs are in ${join(dataDir, 'logs')}.`);
  else await rm(dataDir, { recursive: true, force: true });
  return code;
});

/** In two runs side by side, of which one is shown as it comes and the other when both have ended. */
async function runEveryTest(
  start: (args: string[], logPath?: string) => Promise<Tally>,
  logsDir: string,
): Promise<Tally[]> {
  const logPath = join(logsDir, 'tests-of-processes.log');
  const others = [...EVERY_TEST, ...OF_PROCESSES.flatMap((glob) => ['--ignore', glob])];
  const tallies = await Promise.all([start(others), start(OF_PROCESSES, logPath)]);
  process.stdout.write(await readFile(logPath));
  return tallies;
}

/** @param options.logPath where the run writes; what this process writes to without it */
async function runMocha(options: {
  args: string[];
  env: Record<string, string>;
  logPath: string | undefined;
  signal: AbortSignal;
}): Promise<Tally> {
  const { env, logPath, signal } = options;
  const reporter = join(import.meta.dirname, 'test-reporter.ts');
  const command = [
    process.execPath,
    'node_modules/mocha/bin/mocha.js',
    '--reporter',
    reporter,
    ...options.args,
  ] as const;
  const [program, ...args] = dieWithParent(command, 'SIGTERM');
  const log = logPath === undefined ? undefined : await open(logPath, 'w');
  const output = log?.fd ?? 'inherit';
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', output, output, 'ipc'],
    signal,
  });
  await log?.close();
  const exit = once(child, 'exit');
  const tally = await Promise.race([
    once(child, 'message').then(([message]) => message as Tally),
    exit.then(() => null),
  ]);
  if (tally === null) {
    console.error('The tests ended before their end.');
    return { passed: 0, failed: 1 };
  }
  if (await endsByItself(child, exit)) return tally;
  console.error(`After the last test something stays open (${END_PATIENCE_MS / 1000} s): a test does not clean up.`);
  return { ...tally, failed: tally.failed + 1 };
}

async function endsByItself(child: ChildProcess, exit: Promise<unknown>): Promise<boolean> {
  const patience = new AbortController();
  const late = delay(END_PATIENCE_MS, 'late', { signal: patience.signal }).catch(() => 'ended');
  const end = await Promise.race([exit, late]);
  patience.abort();
  if (end === 'late') child.kill('SIGKILL');
  return end !== 'late';
}

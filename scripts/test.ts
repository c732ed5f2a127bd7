// `npm test [-- test/api/some.test.ts …]`: the checks and every test level on real services, started for this run alone.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runChecks, type Tally } from './checks.ts';
import { promqlProgram } from './promql-program.ts';
import { s3Program } from './s3-program.ts';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { findTestPorts, startTestS3, startTestServices } from './test-services.ts';

const EVERY_TEST = ['test/**/*.test.ts', 'services/**/*.test.ts'];
/** About half of the time: tests that mostly wait for processes of their own. The others run beside them. */
const OF_PROCESSES = [
  ...['test/faults/**/*.test.ts', 'test/e2e/**/*.test.ts', 'test/workflows/**/*.test.ts', 'test/replay/**/*.test.ts'],
  'services/**/*.test.ts',
];
/** They begin when their programs are there, which may have to be built while the others run. */
const OF_BUILT = [
  ...['test/s3/**/*.test.ts', 'test/**/*-s3.test.ts', 'test/api/connectors/**/*.test.ts', 'test/e2e/secrets.test.ts'],
  'test/dashboard/**/*.test.ts',
];
const NOTHING: Tally = { passed: 0, failed: [] };
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
      const needs = (words: RegExp) => specs.length === 0 || specs.some((spec) => words.test(spec));
      const builtS3 = needs(/s3|connectors|secrets|f1-|\*/) ? s3Program(toolsDir, ending) : Promise.resolve(undefined);
      const builtPromql = needs(/dashboard/) ? promqlProgram(toolsDir, ending) : Promise.resolve(null);
      const [env, checks] = await Promise.all([
        startTestServices({ supervisor, toolsDir, dataDir, ports }),
        // Someone who names a file wants its answer at once.
        specs.length > 0 ? NOTHING : runChecks(ending),
      ]);
      const start = (args: string[], logPath?: string) => runMocha({ args, env, logPath, signal: ending });
      const startWithBuilt = async (args: string[], logPath?: string) => {
        const s3 = await startTestS3({ supervisor, program: await builtS3, dataDir, port: ports.s3 });
        const promql = await builtPromql;
        const built = { ...s3, ...(promql !== null && { TEST_PROMQL_PROGRAM: promql }) };
        return runMocha({ args, env: { ...env, ...built }, logPath, signal: ending });
      };
      const tests =
        specs.length > 0
          ? [await startWithBuilt(specs)]
          : await runEveryTest({ start, startWithBuilt, logsDir: join(dataDir, 'logs') });
      const tallies = [checks, ...tests];
      const passed = tallies.reduce((sum, tally) => sum + tally.passed, 0);
      const failed = tallies.flatMap((tally) => tally.failed);
      // Again at the end: the reports of the runs are long, and one of them is far above.
      for (const name of failed) console.log(`  ✖ ${name}`);
      console.log(`${passed} passed, ${failed.length} failed`);
      return failed.length === 0 && passed > 0 ? 0 : 1;
    },
  });
  if (code === 1) console.error(`The services' logs are in ${join(dataDir, 'logs')}.`);
  else await rm(dataDir, { recursive: true, force: true });
  return code;
});

type StartTests = (args: string[], logPath?: string) => Promise<Tally>;

/** In runs side by side, of which one is shown as it comes and the others when all have ended. */
async function runEveryTest(options: {
  start: StartTests;
  startWithBuilt: StartTests;
  logsDir: string;
}): Promise<Tally[]> {
  const { start, startWithBuilt, logsDir } = options;
  const logs = {
    processes: join(logsDir, 'tests-of-processes.log'),
    built: join(logsDir, 'tests-of-built-programs.log'),
  };
  const without = (globs: readonly string[]) => globs.flatMap((glob) => ['--ignore', glob]);
  const tallies = await Promise.all([
    start([...EVERY_TEST, ...without([...OF_PROCESSES, ...OF_BUILT])]),
    start([...OF_PROCESSES, ...without(OF_BUILT)], logs.processes),
    startWithBuilt(OF_BUILT, logs.built),
  ]);
  for (const log of Object.values(logs)) process.stdout.write(await readFile(log));
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
    // What was sourced in a shell is of other services.
    env: { ...process.env, TEST_S3_URL: undefined, ...env },
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
    return { passed: 0, failed: [`The tests ended before their end: ${args.join(' ')}`] };
  }
  if (await endsByItself(child, exit)) return tally;
  const leak = `After the last test something stays open (${END_PATIENCE_MS / 1000} s): a test does not clean up.`;
  return { ...tally, failed: [...tally.failed, leak] };
}

async function endsByItself(child: ChildProcess, exit: Promise<unknown>): Promise<boolean> {
  const patience = new AbortController();
  const late = delay(END_PATIENCE_MS, 'late', { signal: patience.signal }).catch(() => 'ended');
  const end = await Promise.race([exit, late]);
  patience.abort();
  if (end === 'late') child.kill('SIGKILL');
  return end !== 'late';
}

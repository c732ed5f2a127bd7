// `npm test [-- test/api/some.test.ts …]`: the checks and every test level on real services, started for this run alone.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runChecks, type Tally } from './checks.ts';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { findTestPorts, startTestServices } from './test-services.ts';

const EVERY_TEST = ['test/**/*.test.ts', 'services/**/*.test.ts'];
const NOTHING: Tally = { passed: 0, failed: 0 };
const END_PATIENCE_MS = 15_000;

await exitAfter(async () => {
  const { toolsDir } = readTestServiceSettings(process.env);
  const specs = process.argv.slice(2);
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-test-'));
  const code = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    // Tests that were cut short have not passed.
    codeWhenStopped: 130,
    work: async (supervisor, ending) => {
      const ports = await findTestPorts();
      const [env, checks] = await Promise.all([
        startTestServices({ supervisor, toolsDir, dataDir, ports }),
        // Someone who names a file wants its answer at once.
        specs.length > 0 ? NOTHING : runChecks(ending),
      ]);
      const tests = await runMocha(specs.length > 0 ? specs : EVERY_TEST, env, ending);
      const [passed, failed] = [checks.passed + tests.passed, checks.failed + tests.failed];
      console.log(`${passed} passed, ${failed} failed`);
      return failed === 0 && passed > 0 ? 0 : 1;
    },
  });
  if (code === 1) console.error(`The services' logs are in ${join(dataDir, 'logs')}.`);
  else await rm(dataDir, { recursive: true, force: true });
  return code;
});

async function runMocha(specs: string[], env: Record<string, string>, signal: AbortSignal): Promise<Tally> {
  const reporter = join(import.meta.dirname, 'test-reporter.ts');
  const command = [process.execPath, 'node_modules/mocha/bin/mocha.js', '--reporter', reporter, ...specs] as const;
  const [program, ...args] = dieWithParent(command, 'SIGTERM');
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    signal,
  });
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

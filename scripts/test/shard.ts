import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { dieWithParent } from '../supervisor/parent-death.ts';
import type { TestMessage } from './reporter.ts';

const REPORTER = join(import.meta.dirname, 'reporter.ts');
const EXIT_TIMEOUT_MS = 15_000;

/**
 * Runs these test files one after another in one mocha process.
 * @returns a problem of the process itself, or null; failed tests are reported through `onMessage`
 */
export async function runShard(options: {
  files: readonly string[];
  mochaArgs: readonly string[];
  env: Record<string, string | undefined>;
  signal: AbortSignal;
  onMessage: (message: TestMessage) => void;
}): Promise<string | null> {
  const { files, mochaArgs, env, signal, onMessage } = options;
  const mocha = [process.execPath, 'node_modules/mocha/bin/mocha.js', '--reporter', REPORTER] as const;
  const [program, ...args] = dieWithParent([...mocha, ...mochaArgs, ...files], 'SIGTERM');
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    signal,
  });
  const ended = Promise.withResolvers<'ended'>();
  let hasFailed = false;
  child.on('message', (message: TestMessage) => {
    onMessage(message);
    if (message.kind === 'test' && message.state === 'failed') hasFailed = true;
    if (message.kind === 'end') ended.resolve('ended');
  });
  const exit = once(child, 'exit');
  if ((await Promise.race([ended.promise, exit])) !== 'ended') {
    return `A test process ended before its last test: ${files.join(' ')}`;
  }
  const timeout = new AbortController();
  const late = delay(EXIT_TIMEOUT_MS, 'late' as const, { signal: timeout.signal }).catch(() => null);
  const outcome = await Promise.race([exit, late]);
  timeout.abort();
  if (outcome !== 'late') {
    const [code, signalName] = outcome as [number | null, NodeJS.Signals | null];
    if (code === 0 || hasFailed) return null;
    return `A test process ended with ${signalName ?? code} though no test failed: ${files.join(' ')}`;
  }
  child.kill('SIGKILL');
  return `A test does not clean up: ${EXIT_TIMEOUT_MS / 1000} s after the last test its process was still open (${files.join(' ')})`;
}

import { relative } from 'node:path';
import { inspect } from 'node:util';
import mocha from 'mocha';
import { isHook, skipReasonOf } from '../../test/support/skip.ts';

export type TestMessage =
  | { kind: 'test'; file: string; title: string; state: 'passed'; ms: number }
  | { kind: 'test'; file: string; title: string; state: 'skipped'; ms: number; reason: string | null }
  | FailedTest
  | { kind: 'file'; file: string; ms: number }
  | { kind: 'statuses'; declared: string[]; answered: string[] }
  | { kind: 'end' };

/** @property grep the title of the test, or for a failed hook the title of its suite */
export type FailedTest = {
  kind: 'test';
  file: string;
  title: string;
  state: 'failed';
  ms: number;
  error: string;
  grep: string;
};

/** Time after the last test until the open resources are printed, before the process is killed. */
const STILL_OPEN_MS = 10_000;

class MessageReporter extends mocha.reporters.Base {
  constructor(runner: mocha.Runner, options: mocha.MochaOptions) {
    super(runner, options);
    let current: { file: string; startedMs: number } | null = null;
    const send = (message: TestMessage) => process.send?.(message);
    const endFile = () => {
      if (current) send({ kind: 'file', file: current.file, ms: performance.now() - current.startedMs });
      current = null;
    };
    const resultOf = (test: mocha.Runnable) => ({
      kind: 'test' as const,
      file: fileOf(test),
      title: test.fullTitle(),
      ms: test.duration ?? 0,
    });
    runner.on('suite', (suite) => {
      if (!suite.parent?.root) return;
      const file = relative(process.cwd(), suite.file ?? '');
      if (file === current?.file) return;
      endFile();
      current = { file, startedMs: performance.now() };
    });
    runner.on('pass', (test) => send({ ...resultOf(test), state: 'passed' }));
    runner.on('pending', (test) => send({ ...resultOf(test), state: 'skipped', reason: skipReasonOf(test) }));
    runner.on('fail', (test, error) => {
      const grep = isHook(test) ? (test.parent?.fullTitle() ?? '') : test.fullTitle();
      send({ ...resultOf(test), state: 'failed', error: textOf(error), grep });
    });
    runner.once('end', () => {
      endFile();
      send({ kind: 'end' });
      // The timer fires only if something else keeps the process alive.
      setTimeout(
        () => console.error('The test process is kept open by:', process.getActiveResourcesInfo().join(', ')),
        STILL_OPEN_MS,
      ).unref();
    });
  }
}

function fileOf(test: mocha.Runnable): string {
  return relative(process.cwd(), test.file ?? test.parent?.file ?? '');
}

function textOf(error: Error & { expected?: unknown; actual?: unknown; showDiff?: boolean }): string {
  const { message, stack, cause } = error;
  const own = stack?.includes(message) ? stack : `${message}\n${stack ?? ''}`;
  const text = cause === undefined ? own : `${own}\nCaused by: ${inspect(cause)}`;
  if (error.showDiff === false || error.expected === undefined) return text;
  const { stringify } = mocha.utils;
  return `${text}\n${mocha.reporters.Base.generateDiff(stringify(error.actual), stringify(error.expected))}`;
}

// Mocha loads the default export of a reporter file.
export default MessageReporter;

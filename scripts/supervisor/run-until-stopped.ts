import { once } from 'node:events';
import { StartFailure } from './start-failure.ts';
import { openSupervisor, type Supervisor } from './supervisor.ts';

/** Exit code after an interruption, like that of a shell after SIGINT. */
const CUT_SHORT = 130;

/**
 * Opens a supervisor and runs the work. Stops all children before it settles, after a signal, a failure or the end of
 * the work.
 * @returns the work's exit code; after a stop signal 0 if `serves` was called, otherwise 130
 * @throws StartFailure if a child cannot be kept running, and any error of the work
 */
export async function runUntilStopped(options: {
  dataDir: string;
  log: (line: string) => void;
  /**
   * @param ending aborts before the children are stopped
   * @param serves marks the startup as complete, so that a stop signal leads to exit code 0
   */
  work: (supervisor: Supervisor, ending: AbortSignal, serves: () => void) => Promise<number>;
}): Promise<number> {
  // Files of child processes (databases, logs, documents) are readable by this user only.
  process.umask(0o077);
  let codeWhenStopped = CUT_SHORT;
  const serves = () => {
    codeWhenStopped = 0;
  };
  const stopRequest = stopRequested().then(() => {
    options.log('Stopping …');
    return codeWhenStopped;
  });
  const supervisor = await openSupervisor(options);
  const ending = new AbortController();
  try {
    return await Promise.race([options.work(supervisor, ending.signal, serves), supervisor.failed, stopRequest]);
  } finally {
    ending.abort();
    await supervisor.stop();
  }
}

/** Exits with the code of the work. Prints a StartFailure without a stack, because its message is for users. */
export async function exitAfter(work: () => Promise<number>): Promise<never> {
  try {
    process.exit(await work());
  } catch (error) {
    console.error(error instanceof StartFailure ? error.message : error);
    process.exit(1);
  }
}

async function stopRequested(): Promise<void> {
  // Ctrl-C reaches the process more than once, also through npm: further signals must not interrupt the stop.
  const signals = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map((signal) => {
    process.on(signal, () => undefined);
    return once(process, signal);
  });
  const parent = once(process, 'disconnect');
  process.channel?.unref();
  await Promise.race([...signals, parent]);
}

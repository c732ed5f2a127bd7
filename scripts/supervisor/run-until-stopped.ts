import { once } from 'node:events';
import { StartFailure } from './start-failure.ts';
import { openSupervisor, type Supervisor } from './supervisor.ts';

/** The exit code of what somebody cut short. */
const CUT_SHORT = 130;

/**
 * The life of a process that supervises others: opens the supervisor, does the work, and whatever happens (a signal, a
 * failure, the end of the work) ends all children before it settles.
 * @returns the exit code: the work's own, or for a stop that was asked for 0 when the work was to serve until then, and
 *   130 when it was cut short
 * @throws StartFailure when a child cannot be kept running, and whatever the work throws
 */
export async function runUntilStopped(options: {
  dataDir: string;
  log: (line: string) => void;
  /**
   * @param ending aborts when the end has come, before the children are stopped
   * @param serves says that nothing is left to do but to serve until somebody stops it
   */
  work: (supervisor: Supervisor, ending: AbortSignal, serves: () => void) => Promise<number>;
}): Promise<number> {
  // Whatever any child writes (databases, logs, documents) is for this user alone.
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

/** Ends this process with the code of its work; a StartFailure is for people, so it is printed without a stack. */
export async function exitAfter(work: () => Promise<number>): Promise<never> {
  try {
    process.exit(await work());
  } catch (error) {
    console.error(error instanceof StartFailure ? error.message : error);
    process.exit(1);
  }
}

/** Settles when the person, the machine, or the end of the bootstrap asks this process to stop. */
async function stopRequested(): Promise<void> {
  // A key press reaches the process more than once, by way of npm too: further signals must not cut the stop short.
  const signals = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map((signal) => {
    process.on(signal, () => undefined);
    return once(process, signal);
  });
  const parent = once(process, 'disconnect');
  process.channel?.unref();
  await Promise.race([...signals, parent]);
}

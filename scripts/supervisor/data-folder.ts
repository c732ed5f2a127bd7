import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { processStart, takeLock } from '../bootstrap/process-lock.mjs';
import { signalGroup } from './child-process.ts';
import { StartFailure } from './start-failure.ts';

const LOG_BYTES_KEPT = 5 * 1024 * 1024;
const STALE_STOP_MS = 5_000;

/** A process as it can be recognised later: a pid alone may belong to a stranger by then. */
type ChildRecord = { name: string; pid: number; start: string; stopSignal: 'SIGTERM' | 'SIGINT' };

/** The folder that one supervisor owns while it lives: `run/` says who runs, `logs/` what they said. */
export type DataFolder = {
  logPath: (name: string) => string;
  /** Remembers the living children for the sweep of a later supervisor. */
  record: (children: Iterable<{ name: string; pid: number; stopSignal: 'SIGTERM' | 'SIGINT' }>) => void;
  release: () => void;
};

/**
 * Takes the folder and ends what a supervisor that died without cleaning up left behind.
 * @throws StartFailure when a living supervisor owns it, or it cannot be made
 */
export async function openDataFolder(path: string): Promise<DataFolder> {
  try {
    makeFolder(join(path, 'logs'));
  } catch (error) {
    throw new StartFailure(`DATA_DIR: ${error instanceof Error ? error.message : error}`);
  }
  const lock = takeLock(join(path, 'run', 'supervisor.lock'));
  if ('heldBy' in lock) {
    throw new StartFailure(`${path} is in use by process ${lock.heldBy}: stop it first, or set another DATA_DIR.`);
  }
  const recordPath = join(path, 'run', 'children.json');
  await Promise.all(readRecords(recordPath).map(endStale));

  return {
    logPath: (name) => freshLog(join(path, 'logs', `${name}.log`)),
    record: (children) => {
      const records = [...children].flatMap(({ name, pid, stopSignal }) => {
        const start = processStart(pid);
        return start === null ? [] : [{ name, pid, start, stopSignal }];
      });
      writeFileSync(`${recordPath}.new`, JSON.stringify(records));
      renameSync(`${recordPath}.new`, recordPath);
    },
    release: () => {
      rmSync(recordPath, { force: true });
      lock.release();
    },
  };
}

/** With its parents. Node's own way of doing so never returns where the system refuses a folder as if it had no parent. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  if (dirname(path) !== path) makeFolder(dirname(path));
  mkdirSync(path);
}

function readRecords(path: string): ChildRecord[] {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : [];
}

async function endStale({ pid, start, stopSignal }: ChildRecord): Promise<void> {
  const isAlive = () => processStart(pid) === start;
  if (!isAlive()) return;
  process.kill(pid, stopSignal);
  for (const deadline = Date.now() + STALE_STOP_MS; isAlive() && Date.now() < deadline; ) await delay(20);
  signalGroup(pid, 'SIGKILL');
  while (isAlive()) await delay(20);
}

/** One older log is kept, so that a log grows without bound only within one long run. */
function freshLog(path: string): string {
  if (existsSync(path) && statSync(path).size > LOG_BYTES_KEPT) renameSync(path, `${path}.1`);
  return path;
}

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { boundLog } from './bounded-log.ts';
import { signalGroup } from './child-process.ts';
import { explainWriteError } from './file-failure.ts';
import { processStart, takeLock } from './process-lock.mjs';
import { StartFailure } from './start-failure.ts';

const STALE_STOP_MS = 5_000;

/** A child with its start time: the pid alone may belong to another process later. */
type ChildRecord = { name: string; pid: number; start: string; stopSignal: 'SIGTERM' | 'SIGINT' };

export type DataFolder = {
  logPath: (name: string) => string;
  boundLog: (name: string) => void;
  record: (children: Iterable<{ name: string; pid: number; stopSignal: 'SIGTERM' | 'SIGINT' }>) => void;
  release: () => void;
};

/**
 * Locks the data folder and stops processes that a crashed supervisor left behind.
 * @throws StartFailure if a running supervisor owns the folder, or it cannot be created
 */
export async function openDataFolder(path: string): Promise<DataFolder> {
  const lock = lockFolder(path);
  if ('heldBy' in lock) {
    throw new StartFailure(`${path} is in use by process ${lock.heldBy}: stop it first, or set another DATA_DIR.`);
  }
  const recordPath = join(path, 'run', 'children.json');
  await Promise.all(readRecords(recordPath).map(endStale));

  const logPath = (name: string) => join(path, 'logs', `${name}.log`);

  return {
    logPath,
    boundLog: (name) => boundLog(logPath(name)),
    record: (children) => {
      const records = [...children].flatMap(({ name, pid, stopSignal }) => {
        const start = processStart(pid);
        return start === null ? [] : [{ name, pid, start, stopSignal }];
      });
      try {
        writeFileSync(`${recordPath}.new`, JSON.stringify(records));
        renameSync(`${recordPath}.new`, recordPath);
      } catch (error) {
        // A full disk must not end the services. If the record is lost, the kernel still stops children with their
        // parent.
        if (explainWriteError(error) === null) throw error;
      }
    },
    release: () => {
      rmSync(recordPath, { force: true });
      lock.release();
    },
  };
}

function lockFolder(path: string): ReturnType<typeof takeLock> {
  try {
    makeFolder(join(path, 'logs'));
    return takeLock(join(path, 'run', 'supervisor.lock'));
  } catch (error) {
    const reason = explainWriteError(error) ?? (error instanceof Error ? error.message : String(error));
    throw new StartFailure(`DATA_DIR: ${path} cannot be used: ${reason}.`);
  }
}

/**
 * Creates a folder with its parents: Node's recursive `mkdir` never returns if the system rejects a folder with ENOENT.
 */
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

// Plain JavaScript, because the bootstrap uses this file before a Node that runs TypeScript is installed.
import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Returns the start of a process as a text that no later process with the same pid has; null if no process has the pid.
 * @param {number} pid
 * @returns {string | null}
 */
export function processStart(pid) {
  return process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid);
}

/** @param {number} pid */
function startFromProc(pid) {
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // Field 2 of /proc/<pid>/stat is the program name in brackets and may contain spaces; 3 is the state, 22 the start.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTicks] = [fields[0], fields[19]];
  if (state === 'Z' || state === 'X' || startTicks === undefined) return null;
  // The start is counted from the boot, so a process after a reboot could have the same one.
  return `${readOrNull('/proc/sys/kernel/random/boot_id')?.trim()} ${startTicks}`;
}

/** @param {number} pid */
function startFromPs(pid) {
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || null;
  } catch {
    return null;
  }
}

/**
 * Takes a lock file. The lock of a process that has ended is ignored.
 * @param {string} path
 * @returns {{ release: () => void } | { heldBy: number }} `heldBy` is the pid of the running holder
 */
export function takeLock(path) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = `${process.pid} ${processStart(process.pid)}`;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, mine);
  try {
    for (;;) {
      // A hard link is created atomically, so no process reads a half-written lock.
      if (linked(draft, path)) return { release: () => readOrNull(path) === mine && rmSync(path, { force: true }) };
      const holder = readOrNull(path);
      if (holder === null) continue;
      const pid = Number.parseInt(holder, 10);
      if (holder === `${pid} ${processStart(pid)}`) return { heldBy: pid };
      discardStale(path, holder);
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Removes a stale lock. Two processes may find the same one, so a lock that was taken in between is put back.
 * @param {string} path
 * @param {string} stale
 */
function discardStale(path, stale) {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  if (readOrNull(aside) !== stale) linked(aside, path);
  rmSync(aside, { force: true });
}

/**
 * @param {string} from
 * @param {string} to
 */
function linked(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** @param {string} path */
function readOrNull(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

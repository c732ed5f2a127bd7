// Plain JavaScript: the bootstrap runs before there is a Node that reads TypeScript.
import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * When a process began, as text that a later process with the same pid does not repeat; null when nothing runs there.
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
  // The second field is the program's name in brackets and may hold spaces; the third (state) and the 22nd (start) follow.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTicks] = [fields[0], fields[19]];
  if (state === 'Z' || state === 'X' || startTicks === undefined) return null;
  // Ticks count from the boot, so a start after a reboot could repeat them.
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
 * Takes a lock file that dies with its process: a file of a process that is gone counts for nothing.
 * @param {string} path
 * @returns {{ release: () => void } | { heldBy: number }} the pid of the living holder when it is taken
 */
export function takeLock(path) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = `${process.pid} ${processStart(process.pid)}`;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, mine);
  try {
    for (;;) {
      // A link appears whole or not at all: nobody reads a half-written lock.
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
 * Two processes may find the same stale lock; only what was read as stale may go.
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

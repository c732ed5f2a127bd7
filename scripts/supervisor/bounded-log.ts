import { copyFileSync, existsSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';

const LOG_BYTES = 5 * 1024 * 1024;
const OLDER_LOGS = 3;

/**
 * Rotates a log that has become too large: copies it to `<path>.1` and truncates it. The writing process appends to the
 * same file and need not reopen it.
 */
export function boundLog(path: string, maxBytes = LOG_BYTES): void {
  if (!existsSync(path) || statSync(path).size <= maxBytes) return;
  try {
    copyFileSync(path, `${path}.new`);
  } catch {
    // If the disk has no space for the copy, the log is not rotated; it cannot grow either.
    rmSync(`${path}.new`, { force: true });
    return;
  }
  for (let age = OLDER_LOGS; age > 1; age -= 1) {
    if (existsSync(`${path}.${age - 1}`)) renameSync(`${path}.${age - 1}`, `${path}.${age}`);
  }
  renameSync(`${path}.new`, `${path}.1`);
  truncateSync(path);
}

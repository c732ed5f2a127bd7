import { copyFileSync, existsSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';

const LOG_BYTES = 5 * 1024 * 1024;
const OLDER_LOGS = 3;

/**
 * Puts a log that has grown large aside as `<path>.1`, of which some are kept, and goes on with an empty one. It is
 * copied and cut: its process writes to the end of the very same file and need not know.
 */
export function boundLog(path: string, maxBytes = LOG_BYTES): void {
  if (!existsSync(path) || statSync(path).size <= maxBytes) return;
  try {
    copyFileSync(path, `${path}.new`);
  } catch {
    // Where a copy does not fit, the log does not grow either.
    rmSync(`${path}.new`, { force: true });
    return;
  }
  for (let age = OLDER_LOGS; age > 1; age -= 1) {
    if (existsSync(`${path}.${age - 1}`)) renameSync(`${path}.${age - 1}`, `${path}.${age}`);
  }
  renameSync(`${path}.new`, `${path}.1`);
  truncateSync(path);
}

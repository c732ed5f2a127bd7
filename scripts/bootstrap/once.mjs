import { setTimeout as delay } from 'node:timers/promises';
import { takeLock } from './process-lock.mjs';

/**
 * Does a lasting installation unless it is done, one process at a time, and says so.
 * @param {{ what: string, lockPath: string, isDone: () => boolean, install: () => Promise<void> }} step
 */
export async function once({ what, lockPath, isDone, install }) {
  if (isDone()) return;
  const lock = await waitForLock(lockPath, what);
  try {
    if (isDone()) return;
    const begin = performance.now();
    console.error(`Installing ${what} (once) …`);
    await install();
    console.error(`Installed ${what} in ${((performance.now() - begin) / 1000).toFixed(1)} s.`);
  } finally {
    lock.release();
  }
}

/**
 * @param {string} path
 * @param {string} what
 */
async function waitForLock(path, what) {
  let announced = false;
  for (;;) {
    const lock = takeLock(path);
    if ('release' in lock) return lock;
    if (!announced) console.error(`Process ${lock.heldBy} is installing ${what}: waiting for it …`);
    announced = true;
    await delay(200);
  }
}

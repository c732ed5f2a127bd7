import { setTimeout as delay } from 'node:timers/promises';
import { takeLock } from '../supervisor/process-lock.mjs';

const SIGN_OF_LIFE_MS = 10_000;

/**
 * Installs something unless it is installed, in one process at a time, and prints the progress.
 * @param {{ what: string, size: string, lockPath: string, isDone: () => boolean, install: () => Promise<void> }} step
 */
export async function installOnce({ what, size, lockPath, isDone, install }) {
  if (isDone()) return;
  const lock = await waitForLock(lockPath, what);
  try {
    if (isDone()) return;
    const begin = performance.now();
    const seconds = () => ((performance.now() - begin) / 1000).toFixed(0);
    console.error(`Installing ${what} (once, ${size}, a minute or more) …`);
    const signsOfLife = setInterval(() => console.error(`  … ${seconds()} s`), SIGN_OF_LIFE_MS);
    await install().finally(() => clearInterval(signsOfLife));
    console.error(`Installed ${what} in ${seconds()} s.`);
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

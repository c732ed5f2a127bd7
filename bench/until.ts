import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 50;
const TIMEOUT_MS = 280_000;

/**
 * Polls until `ask` returns true.
 * @param condition text for the timeout error
 */
export async function until(condition: string, ask: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (!(await ask())) {
    if (Date.now() > deadline) throw new Error(`Timed out after ${TIMEOUT_MS / 1000} s: waited until ${condition}.`);
    await delay(PAUSE_MS);
  }
}

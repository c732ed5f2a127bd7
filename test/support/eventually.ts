import { setTimeout as delay } from 'node:timers/promises';

const intervalMs = 50;

/** Asks again until there is an answer: for what other processes bring about. Mocha's own limit ends a vain wait. */
export async function eventually<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await delay(intervalMs);
  }
}

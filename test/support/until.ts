import { setTimeout as delay } from 'node:timers/promises';

const FIRST_PAUSE_MS = 20;
/** Later questions come less often: Temporal and Postgres need the time themselves. */
const LONGEST_PAUSE_MS = 100;
/** The same for every wait, below mocha's own timeout: it ends what hangs, and decides nothing else. */
const HANG_TIMEOUT_MS = process.env.FAULT_RUN === 'full' ? 900_000 : 280_000;

/**
 * Asks until the answer is neither null, undefined nor false.
 * @param question names what is waited for in the error of a wait that hangs
 */
export async function until<T>(question: string, ask: () => Promise<T | undefined | null | false>): Promise<T> {
  const deadline = Date.now() + HANG_TIMEOUT_MS;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.2, LONGEST_PAUSE_MS)) {
    const isLast = Date.now() > deadline;
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    if (isLast) throw new Error(`Still waiting until ${question}, after ${HANG_TIMEOUT_MS / 1000} s.`);
    await delay(pauseMs);
  }
}

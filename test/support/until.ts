import { setTimeout as delay } from 'node:timers/promises';

const FIRST_PAUSE_MS = 20;
/** What takes long is asked for less often: the engine and the database have work of their own. */
const LONGEST_PAUSE_MS = 100;

/** Asks until the answer is there; throws what the question was when it does not come in time. */
export async function until<T>(
  question: string,
  ask: () => Promise<T | undefined | null | false>,
  timeoutMs = 15_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.2, LONGEST_PAUSE_MS)) {
    // A look that took long itself is not the last one.
    const isLast = Date.now() > deadline;
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    if (isLast) throw new Error(`After ${timeoutMs / 1000} s still waiting until ${question}.`);
    await delay(pauseMs);
  }
}

import { setTimeout as delay } from 'node:timers/promises';

/** Asks until the answer is there; throws what the question was when it does not come in time. */
export async function until<T>(
  question: string,
  ask: () => Promise<T | undefined | null | false>,
  timeoutMs = 15_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    if (Date.now() > deadline) throw new Error(`After ${timeoutMs / 1000} s still waiting until ${question}.`);
    await delay(20);
  }
}

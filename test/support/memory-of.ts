import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceProcess } from './child-processes.ts';
import { until } from './until.ts';

/** With these, {@link memoryOf} can ask a process. */
export const probedSettings = { NODE_OPTIONS: `--import=${new URL('./heap-probe.ts', import.meta.url).href}` };

export type Memory = { heapBytes: number; rssBytes: number };

/** What a process holds after its garbage was collected. */
export async function memoryOf({ pid, log }: ServiceProcess): Promise<Memory> {
  const lines = () =>
    log()
      .split('\n')
      .filter((line) => line.includes('"probe":"heap"'));
  const before = lines().length;
  process.kill(pid, 'SIGUSR2');
  const line = await until('the process tells its memory', async () => lines()[before]);
  return JSON.parse(line) as Memory;
}

/** The least of a few looks: what ends by itself in these seconds is no leak. */
export async function settledHeapBytes(
  child: ServiceProcess,
  isEnough: (heapBytes: number) => boolean,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look += 1) {
    least = Math.min(least, (await memoryOf(child)).heapBytes);
    if (isEnough(least)) break;
    await delay(1_000);
  }
  return least;
}

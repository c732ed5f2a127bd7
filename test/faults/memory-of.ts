import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceProcess } from '#test/support/child-processes.ts';
import { until } from '#test/support/until.ts';

/** With these, {@link memoryOf} can ask a process. */
export const probedSettings = { NODE_OPTIONS: `--import=${new URL('./heap-probe.ts', import.meta.url).href}` };

/** What a process holds after its garbage was collected. */
export async function memoryOf({ pid, log }: ServiceProcess): Promise<{ heapBytes: number; rssBytes: number }> {
  const lines = () => log().match(/^.*"probe":"heap".*$/gm) ?? [];
  const before = lines().length;
  process.kill(pid, 'SIGUSR2');
  return JSON.parse(await until('the process tells its memory', async () => lines()[before]));
}

/** By how many bytes the heap has grown: the least of a few looks, as what ends by itself in seconds is no leak. */
export async function heapGrowth(child: ServiceProcess, sinceBytes: number, enoughBytes: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look += 1) {
    least = Math.min(least, (await memoryOf(child)).heapBytes - sinceBytes);
    if (least < enoughBytes) break;
    await delay(1_000);
  }
  return least;
}

export const megabytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(0)} MB`;

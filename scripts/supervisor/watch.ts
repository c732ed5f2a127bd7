import { statfs } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunningChild } from './child-process.ts';
import type { ChildSpec } from './child-spec.ts';

export type WatchPolicy = {
  intervalMs: number;
  /**
   * Consecutive failed probes after which a child is logged as silent; after `hangsAfter` of them a child with
   * `restartIfSilent` is restarted.
   */
  silentAfter: number;
  hangsAfter: number;
  fullBelowBytes: number;
};

// A child on a machine that is merely busy answers at least one probe within a minute.
export const DEFAULT_WATCH: WatchPolicy = { intervalMs: 5_000, silentAfter: 3, hangsAfter: 12, fullBelowBytes: 50e6 };

/** Probes a child until it ends. Counts failed probes instead of time, because a laptop may sleep in between. */
export async function watchChild(
  spec: ChildSpec,
  child: RunningChild,
  { policy, log }: { policy: WatchPolicy; log: (line: string) => void },
): Promise<void> {
  const ended = new AbortController();
  void child.ended.then(() => ended.abort());
  const pause = () => delay(policy.intervalMs, false, { signal: ended.signal }).catch(() => false);
  let unanswered = 0;
  while (await pause().then(() => !ended.signal.aborted)) {
    const answers = await Promise.race([spec.isReady().catch(() => false), pause()]);
    if (ended.signal.aborted) return;
    if (answers && unanswered >= policy.silentAfter) log(`${spec.name} answers its health probe again.`);
    unanswered = answers ? 0 : unanswered + 1;
    if (unanswered === policy.silentAfter) log(`${spec.name} does not answer its health probe.`);
    if (spec.restartIfSilent && unanswered >= policy.hangsAfter) {
      log(`${spec.name} hangs and is restarted.`);
      return child.stop();
    }
  }
}

export function createDiskWatch(folder: string, { fullBelowBytes }: WatchPolicy, log: (line: string) => void) {
  let isFull = false;
  return async (): Promise<void> => {
    const { bavail, bsize, blocks } = await statfs(folder);
    const free = bavail * bsize;
    // Some file systems report a size of 0 blocks, which must not count as a full disk.
    const wasFull = isFull;
    isFull = blocks > 0 && free < (wasFull ? 2 * fullBelowBytes : fullBelowBytes);
    const room = `${Math.floor(free / 1e6)} MB free`;
    if (isFull && !wasFull) {
      log(`The disk of ${folder} is full (${room}): uploads are refused and log lines are lost until space is freed.`);
    }
    if (wasFull && !isFull) log(`The disk of ${folder} has free space again (${room}).`);
  };
}

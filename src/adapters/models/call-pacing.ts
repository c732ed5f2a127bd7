import { setTimeout as delay } from 'node:timers/promises';
import { AppError, appError } from '#src/errors.ts';

/** As long as bulk work waits in all before it gives the task back to its queue. */
const timeoutMs = 60_000;

export type CallPacing = {
  /**
   * Makes a call when its service may be called. A service that names a time (Retry-After) is left alone until then
   * by every call: bulk work waits, what a person waits for fails at once with `model_unavailable`.
   */
  run<T>(call: () => Promise<T>, options: { isBulk: boolean; signal: AbortSignal | undefined }): Promise<T>;
};

/** @param maxBulkCalls bulk calls at once; calls for a person are never queued behind them */
export function createCallPacing(maxBulkCalls: number): CallPacing {
  let notBeforeMs = 0;
  let running = 0;
  const waiting: (() => void)[] = [];

  async function takeSlot(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (running < maxBulkCalls) {
      running += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        waiting.splice(waiting.indexOf(begin), 1);
        reject(signal?.reason);
      };
      waiting.push(begin);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  function giveSlot(): void {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }

  function notePause(error: unknown): void {
    if (!(error instanceof AppError) || error.retryAfterSeconds === undefined) return;
    notBeforeMs = Math.max(notBeforeMs, Date.now() + error.retryAfterSeconds * 1000);
  }

  function tooBusy(): AppError {
    return appError('model_unavailable', {
      detail: 'The model service asked for a pause.',
      retryAfterSeconds: Math.max(1, Math.ceil((notBeforeMs - Date.now()) / 1000)),
    });
  }

  async function runNow<T>(call: () => Promise<T>): Promise<T> {
    if (Date.now() < notBeforeMs) throw tooBusy();
    try {
      return await call();
    } catch (error) {
      notePause(error);
      throw error;
    }
  }

  async function runPatiently<T>(call: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const givesUpAtMs = Date.now() + timeoutMs;
    for (;;) {
      if (notBeforeMs > givesUpAtMs) throw tooBusy();
      while (Date.now() < notBeforeMs) await delay(notBeforeMs - Date.now(), undefined, signal && { signal });
      try {
        return await runNow(call);
      } catch (error) {
        if (!(error instanceof AppError) || error.retryAfterSeconds === undefined) throw error;
      }
    }
  }

  return {
    async run(call, { isBulk, signal }) {
      if (!isBulk) return runNow(call);
      await takeSlot(signal);
      try {
        return await runPatiently(call, signal);
      } finally {
        giveSlot();
      }
    },
  };
}

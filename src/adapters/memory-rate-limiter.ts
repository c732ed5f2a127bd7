import type { RateLimiter } from '#src/ports/load-control.ts';

/** Beyond it the windows that began first make room. */
const maxWindows = 100_000;

/**
 * Counts requests of this process only, without a query. For limits that only have to keep one client from taking the
 * whole process.
 */
export function createMemoryRateLimiter(now: () => number = Date.now): Pick<RateLimiter, 'take'> {
  const windows = new Map<string, { used: number; endsAtMs: number }>();

  return {
    async take(name, subject, { count, seconds }) {
      const key = `${name} ${subject}`;
      const nowMs = now();
      let window = windows.get(key);
      if (window === undefined || window.endsAtMs <= nowMs) {
        windows.delete(key);
        window = { used: 0, endsAtMs: nowMs + seconds * 1_000 };
        windows.set(key, window);
        const oldest = windows.keys().next();
        if (windows.size > maxWindows && !oldest.done) windows.delete(oldest.value);
      }
      window.used += 1;
      return {
        isAllowed: window.used <= count,
        remaining: Math.max(0, count - window.used),
        resetSeconds: Math.ceil((window.endsAtMs - nowMs) / 1_000),
      };
    },
  };
}

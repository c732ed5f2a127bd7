import type { RateLimiter } from '#src/ports/limits.ts';
import type { Metrics } from '#src/ports/telemetry.ts';

export function observedRateLimiter<Limiter extends Pick<RateLimiter, 'take'>>(
  limiter: Limiter,
  metrics: Metrics,
): Limiter {
  return {
    ...limiter,
    async take(name, subject, limit) {
      const window = await limiter.take(name, subject, limit);
      if (!window.isAllowed) metrics.count('acs_rate_limited_total', { limit: name });
      return window;
    },
  };
}

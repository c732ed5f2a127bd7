import type { Metrics } from '#src/ports/metrics.ts';
import type { RateLimiter } from '#src/ports/rate-limiter.ts';

export function observedRateLimiter(limiter: RateLimiter, metrics: Metrics): RateLimiter {
  return {
    ...limiter,
    async take(name, subject, limit) {
      const window = await limiter.take(name, subject, limit);
      if (!window.isAllowed) metrics.count('acs_rate_limited_total', { limit: name });
      return window;
    },
  };
}

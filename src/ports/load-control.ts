/** A fair queue serves its owners, usually organizations, in turn. */
export type FairQueue = <Result>(owner: string, task: () => Promise<Result>) => Promise<Result>;

type RateLimitWindow = { isAllowed: boolean; remaining: number; resetSeconds: number };

export type RateLimiter = {
  /**
   * Takes one request from a rate limit. The limit is exact, also for concurrent requests. A rejected request does not
   * extend the window.
   */
  take(name: string, subject: string, limit: { count: number; seconds: number }): Promise<RateLimitWindow>;
  /**
   * Counts a failed attempt. The `count`-th and each further one start a delay in which no attempt is allowed: 30 s,
   * doubled each time, at most `seconds`. A day without failures resets the count.
   */
  takeWithBackoff(
    name: string,
    subject: string,
    limit: { count: number; seconds: number },
  ): Promise<{ isAllowed: boolean; waitSeconds: number }>;
  reset(name: string, subject: string): Promise<void>;
  forgetExpired(): Promise<void>;
};

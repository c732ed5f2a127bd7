/** Runs tasks with limited concurrency. Owners of tasks, usually organizations, take turns. */
export type FairWorkQueue = <Result>(owner: string, task: () => Promise<Result>) => Promise<Result>;

type RateLimitWindow = { isAllowed: boolean; remaining: number; resetSeconds: number };

export type RateLimiter = {
  /**
   * Counts a request; the count is exact even if requests are concurrent. A rejected request does not extend the
   * window.
   */
  take(name: string, subject: string, limit: { count: number; seconds: number }): Promise<RateLimitWindow>;
  /**
   * Counts one failed attempt. From the `count`-th attempt on, each one starts a delay in which further attempts are
   * rejected: 30 s, doubled each time, up to `seconds`. A day without failures resets the count.
   */
  takeWithBackoff(
    name: string,
    subject: string,
    limit: { count: number; seconds: number },
  ): Promise<{ isAllowed: boolean; waitSeconds: number }>;
  reset(name: string, subject: string): Promise<void>;
  forgetExpired(): Promise<number>;
};

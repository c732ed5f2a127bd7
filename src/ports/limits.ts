/** Runs a task when its owner, usually an organization, has its turn: owners with waiting tasks take turns. */
export type FairQueue = <Result>(owner: string, task: () => Promise<Result>) => Promise<Result>;

/** State of a rate-limit window after a request. */
export type RateLimitWindow = { isAllowed: boolean; remaining: number; resetSeconds: number };

/** Counts requests of all replicas, except the in-memory implementation of `take`. */
export type RateLimiter = {
  /** Counts a request against a limit of `count` per `seconds`, exactly. A rejected request does not extend the window. */
  take(name: string, subject: string, limit: { count: number; seconds: number }): Promise<RateLimitWindow>;
  /**
   * Counts a failure. The `count`-th failure and each further one start a delay during which none is allowed: 30 s,
   * doubled each time, at most `seconds`. A day without failures resets the count.
   */
  takeWithBackoff(
    name: string,
    subject: string,
    limit: { count: number; seconds: number },
  ): Promise<{ isAllowed: boolean; waitSeconds: number }>;
  /** Resets the failures of `subject`. */
  reset(name: string, subject: string): Promise<void>;
  /** Deletes expired windows. */
  forgetExpired(): Promise<void>;
};

/** How a window stands after a request. */
export type Window = { isAllowed: boolean; remaining: number; resetSeconds: number };

/** Counts requests for all replicas together. */
export type RateLimiter = {
  /**
   * Counts a request of `subject` against a limit of `count` in a window of `seconds`, exactly however many come at
   * once. One beyond the limit is not allowed and prolongs nothing.
   */
  take(name: string, subject: string, limit: { count: number; seconds: number }): Promise<Window>;
  /** Forgets windows that are over. */
  forgetExpired(): Promise<void>;
};

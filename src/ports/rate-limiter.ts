/** How a window stands after a request. */
export type Window = { isAllowed: boolean; remaining: number; resetSeconds: number };

/** Counts requests for all replicas together. */
export type RateLimiter = {
  /**
   * Counts a request of `subject` against a limit of `count` in a window of `seconds`, exactly however many come at
   * once. One beyond the limit is not allowed and prolongs nothing.
   */
  take(name: string, subject: string, limit: { count: number; seconds: number }): Promise<Window>;
  /**
   * Counts a failure of `subject`, from whichever replica. After `count` failures each is followed by a delay in which
   * no further one is allowed: 30 s, then twice as long each time, `seconds` at most. A day without failures forgets all.
   */
  takeWithBackoff(
    name: string,
    subject: string,
    limit: { count: number; seconds: number },
  ): Promise<{ isAllowed: boolean; waitSeconds: number }>;
  /** Forgets the failures of `subject`. */
  reset(name: string, subject: string): Promise<void>;
  /** Forgets windows that are over. */
  forgetExpired(): Promise<void>;
};

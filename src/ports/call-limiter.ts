/** Bounds calls of models for all processes together. */
export type CallLimiter = {
  /**
   * Makes a call when it is its turn. A service that names a time (`retryAfterSeconds` of what the call throws) is left
   * alone until then by every call, and is then tried by one before others. Waits for minutes; throws
   * `model_unavailable` with the time that is left when the pause is longer than that, and the signal's reason.
   * @param of.atOnce calls of the model, of all organizations together; without it, it is eight of each
   */
  run<T>(
    of: { orgId: string; model: string; atOnce?: number },
    call: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T>;
};

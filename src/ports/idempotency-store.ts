/** One use of an Idempotency-Key. `route` is method and path template; keys of different callers never meet. */
export type IdempotencyKey = { userId: string; route: string; key: string };

export type StoredEvent = { id?: string; event: string; data: unknown };

/** An answer that can be given again. Headers are those that the handler set, not those of the connection. */
export type StoredResponse = {
  status: number;
  headers: Record<string, string>;
  body:
    | { kind: 'empty' }
    | { kind: 'json'; data: unknown }
    | { kind: 'problem'; data: unknown }
    | { kind: 'events'; events: StoredEvent[] };
};

export type IdempotencyClaim =
  | { outcome: 'claimed'; leaseOwner: string; reservedId: string }
  | { outcome: 'in_flight' }
  | { outcome: 'other_request' }
  | { outcome: 'stored'; response: StoredResponse };

/**
 * Remembers answers for 24 hours and lets one request at a time work under a key. Who holds a key names himself by the
 * `leaseOwner` of his claim: calls of one whose lease was taken over change nothing. `reservedId` is for what the request
 * makes. It stays with the key, so that a repeated request finds what an interrupted one has made.
 */
export type IdempotencyStore = {
  /** Takes the key for `leaseSeconds`, unless another request has it, or had it with this or another fingerprint. */
  claim(key: IdempotencyKey, fingerprint: string, leaseSeconds: number): Promise<IdempotencyClaim>;
  renew(key: IdempotencyKey, leaseOwner: string, leaseSeconds: number): Promise<void>;
  complete(key: IdempotencyKey, leaseOwner: string, response: StoredResponse): Promise<void>;
  /** Ends the lease of a request that failed in a way that asks to be repeated. */
  release(key: IdempotencyKey, leaseOwner: string): Promise<void>;
  /** Forgets answers that are too old to be given again: they name people. */
  forgetExpired(): Promise<void>;
};

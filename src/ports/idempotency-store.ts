/** An idempotency key is scoped to the user and to method and path template of the route. */
export type IdempotencyKey = { userId: string; route: string; key: string };

export type ServerSentEvent = { id?: string; event: string; data: unknown };

/** A response that can be sent again, with the headers that the handler set. */
export type StoredResponse = {
  status: number;
  headers: Record<string, string>;
  body:
    | { kind: 'empty' }
    | { kind: 'json'; data: unknown }
    | { kind: 'problem'; data: unknown }
    | { kind: 'events'; events: ServerSentEvent[] };
};

type IdempotencyClaim =
  | { outcome: 'claimed'; leaseOwner: string; reservedId: string }
  | { outcome: 'in_flight' }
  | { outcome: 'other_request' }
  | { outcome: 'stored'; response: StoredResponse };

/**
 * Stores responses for 24 hours and leases each key to one request at a time. Calls with the `leaseOwner` of a lease
 * that another request has taken over have no effect. `reservedId` is the id of the resource to create; it stays with
 * the key, so that a repeated request finds what an interrupted one created.
 */
export type IdempotencyStore = {
  /**
   * Leases the key for `leaseSeconds`. `in_flight`: another request holds the lease. `other_request`: the key belongs
   * to a request with another fingerprint. `stored`: there is a response. A released key can be claimed again.
   */
  claim(key: IdempotencyKey, fingerprint: string, leaseSeconds: number): Promise<IdempotencyClaim>;
  renew(key: IdempotencyKey, leaseOwner: string, leaseSeconds: number): Promise<void>;
  complete(key: IdempotencyKey, leaseOwner: string, response: StoredResponse): Promise<void>;
  release(key: IdempotencyKey, leaseOwner: string): Promise<void>;
  /** Expired responses must be deleted, because they contain personal data. */
  forgetExpired(): Promise<void>;
};

/** An `Idempotency-Key` is scoped to the user and to the route (method and path template). */
export type IdempotencyKey = { userId: string; route: string; key: string };

/** On the wire, `data` also has `type`, the name of the event. */
export type ServerSentEvent = { id?: string; event: string; data: object };

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
 * Stores responses for 24 hours and leases each idempotency key to one request at a time. A call has no effect if
 * another request has taken over the lease of its `leaseOwner`. `reservedId` is the id of the resource to create; it
 * stays with the key, so that a repeated request finds what an interrupted request created.
 */
export type IdempotencyStore = {
  /**
   * Leases the key for `leaseSeconds`. `in_flight`: another request holds the lease. `other_request`: the key was used
   * for a request with another fingerprint. `stored`: the response of an earlier request is returned. A released key
   * can be claimed again.
   */
  claim(key: IdempotencyKey, fingerprint: string, leaseSeconds: number): Promise<IdempotencyClaim>;
  renew(key: IdempotencyKey, leaseOwner: string, leaseSeconds: number): Promise<void>;
  complete(key: IdempotencyKey, leaseOwner: string, response: StoredResponse): Promise<void>;
  release(key: IdempotencyKey, leaseOwner: string): Promise<void>;
  /** Deletes expired responses, which is required because they contain personal data. */
  forgetExpired(): Promise<number>;
};

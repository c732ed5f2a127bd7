import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/** How long a call may take: a request waits for it, and the sweeper repeats whatever it did not achieve. */
const CALL_TIMEOUT_MS = 2_000;

/** Half a second of patience with a server that refuses connections: requests should not hang while it is down. */
const CALL_ATTEMPTS = 3;

/** A client of Temporal. `call` bounds what is done inside it; `close` gives the connection back. */
export type TemporalConnection = {
  client: Client;
  namespace: string;
  call<T>(work: () => Promise<T>, timeoutMs?: number): Promise<T>;
  close(): Promise<void>;
};

/** Connects at the first call and again after every loss, so that a process starts and serves while Temporal is down. */
export function createTemporalConnection(options: { address: string; namespace: string }): TemporalConnection {
  const connection = Connection.lazy({
    address: options.address,
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: CALL_ATTEMPTS }))],
  });
  return {
    client: new Client({ connection, namespace: options.namespace }),
    namespace: options.namespace,
    call: (work, timeoutMs = CALL_TIMEOUT_MS) => connection.withDeadline(Date.now() + timeoutMs, work),
    close: () => connection.close(),
  };
}

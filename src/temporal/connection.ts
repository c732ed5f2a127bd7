import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type WorkflowClientInterceptor,
} from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { TemporalConfig } from '#src/config.ts';
import { traceHeaderName } from '#src/contracts/tracing.ts';
import { appError } from '#src/errors.ts';
import { dataConverter } from './data-converter.ts';

/** Where the server is, and how it is told who we are. */
type ServerAccess = Pick<TemporalConfig, 'address'> & Partial<Pick<TemporalConfig, 'tls' | 'apiKey'>>;

/** For connections of clients and of workers alike. */
export function connectionOptions({ address, tls, apiKey }: ServerAccess) {
  return { address, ...(tls && { tls }), ...(apiKey && { apiKey }) };
}

/** Half a second of patience with a server that refuses connections: requests should not hang while it is down. */
const CALL_ATTEMPTS = 3;

/**
 * A client of Temporal. `call` sets a deadline for the RPCs inside it: the configured timeout, or `minTimeoutMs` where
 * that is longer. `close` rejects new calls, waits for pending ones and closes the connection.
 */
export type TemporalConnection = {
  client: Client;
  namespace: string;
  call<T>(work: () => Promise<T>, minTimeoutMs?: number): Promise<T>;
  close(): Promise<void>;
};

/** Connects at the first call and again after every loss, so that a process starts and serves while Temporal is down. */
export function createTemporalConnection(
  options: ServerAccess &
    Pick<TemporalConfig, 'namespace' | 'callTimeoutMs'> &
    Partial<Pick<TemporalConfig, 'payloadKeys'>> & {
      /** The trace that runs which are started now belong to. */
      traceparent?: () => string | undefined;
    },
): TemporalConnection {
  const connection = Connection.lazy({
    ...connectionOptions(options),
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: CALL_ATTEMPTS }))],
  });
  const underWay = new Set<Promise<unknown>>();
  let isClosing = false;

  async function call<T>(work: () => Promise<T>, minTimeoutMs = 0): Promise<T> {
    if (isClosing) throw appError('service_unavailable', { detail: 'The connection to Temporal is closed.' });
    const timeoutMs = Math.max(options.callTimeoutMs, minTimeoutMs);
    const outcome = connection.withDeadline(Date.now() + timeoutMs, work);
    underWay.add(outcome);
    try {
      return await outcome;
    } finally {
      underWay.delete(outcome);
    }
  }

  return {
    client: new Client({
      connection,
      namespace: options.namespace,
      dataConverter: dataConverter(options.payloadKeys),
      interceptors: { workflow: [passTraceOn(options.traceparent ?? (() => undefined))] },
    }),
    namespace: options.namespace,
    call,
    close: async () => {
      isClosing = true;
      // A call that waits to be repeated would find its channel closed, and throw where nobody can catch it.
      await Promise.allSettled(underWay);
      await connection.close();
    },
  };
}

function passTraceOn(traceparent: () => string | undefined): WorkflowClientInterceptor {
  const withTrace = <Input extends { headers: object }>(input: Input): Input => {
    const trace = traceparent();
    if (trace === undefined) return input;
    const header = defaultPayloadConverter.toPayload(trace);
    return { ...input, headers: { ...input.headers, [traceHeaderName]: header } };
  };
  return {
    startWithDetails: (input, next) => next(withTrace(input)),
    signalWithStart: (input, next) => next(withTrace(input)),
  };
}

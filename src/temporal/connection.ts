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
import { connectionOptions, type ServerAccess } from './connection-options.ts';
import { dataConverter } from './data-converter.ts';

/** How long a call may take: a request waits for it, and the sweeper repeats whatever it did not achieve. */
const CALL_TIMEOUT_MS = 2_000;

/** Half a second of patience with a server that refuses connections: requests should not hang while it is down. */
const CALL_ATTEMPTS = 3;

/**
 * A client of Temporal. `call` bounds what is done inside it; `close` refuses further calls, waits for those under way
 * and gives the connection back.
 */
export type TemporalConnection = {
  client: Client;
  namespace: string;
  call<T>(work: () => Promise<T>, timeoutMs?: number): Promise<T>;
  close(): Promise<void>;
};

/** Connects at the first call and again after every loss, so that a process starts and serves while Temporal is down. */
export function createTemporalConnection(
  options: ServerAccess &
    Pick<TemporalConfig, 'namespace'> &
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

  async function call<T>(work: () => Promise<T>, timeoutMs = CALL_TIMEOUT_MS): Promise<T> {
    if (isClosing) throw appError('service_unavailable', { detail: 'The connection to Temporal is closed.' });
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

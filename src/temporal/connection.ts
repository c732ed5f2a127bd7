import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type WorkflowClientInterceptor,
} from '@temporalio/client';
import { defaultPayloadConverter, defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import proto from '@temporalio/proto';
import type { TemporalConfig } from '#src/config.ts';
import { type SearchAttributeName, searchAttributeNames } from '#src/contracts/jobs.ts';
import { traceHeaderName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { createTemporalDataConverter } from './data-converter.ts';

type ServerAccess = Pick<TemporalConfig, 'address'> & Partial<Pick<TemporalConfig, 'tls' | 'apiKey'>>;

export function temporalConnectionOptions({ address, tls, apiKey }: ServerAccess) {
  return { address, ...(tls && { tls }), ...(apiKey && { apiKey }) };
}

/**
 * Maximum attempts of an RPC while Temporal refuses connections. They take half a second, so that API requests do not
 * hang.
 */
const CALL_ATTEMPTS = 3;

/**
 * `call` runs RPCs with a timeout of at least `minTimeoutMs`. `close` rejects new calls and waits for pending ones.
 */
export type TemporalConnection = {
  client: Client;
  namespace: string;
  call<T>(work: () => Promise<T>, minTimeoutMs?: number): Promise<T>;
  close(): Promise<void>;
};

/** Connects at the first call and after a loss, so that a process can start while Temporal is down. */
export function createTemporalConnection(
  options: ServerAccess &
    Pick<TemporalConfig, 'namespace' | 'callTimeoutMs'> &
    Partial<Pick<TemporalConfig, 'payloadKeys'>> & {
      traceparent?: () => string | undefined;
    },
): TemporalConnection {
  const connection = Connection.lazy({
    ...temporalConnectionOptions(options),
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: CALL_ATTEMPTS }))],
  });
  const pending = new Set<Promise<unknown>>();
  let isClosing = false;

  async function call<T>(work: () => Promise<T>, minTimeoutMs = 0): Promise<T> {
    if (isClosing) throw appError('service_unavailable', { detail: 'The connection to Temporal is closed.' });
    const timeoutMs = Math.max(options.callTimeoutMs, minTimeoutMs);
    const outcome = connection.withDeadline(Date.now() + timeoutMs, work);
    pending.add(outcome);
    try {
      return await outcome;
    } finally {
      pending.delete(outcome);
    }
  }

  return {
    client: new Client({
      connection,
      namespace: options.namespace,
      dataConverter: createTemporalDataConverter(options.payloadKeys),
      interceptors: { workflow: [propagateTrace(options.traceparent ?? (() => undefined))] },
    }),
    namespace: options.namespace,
    call,
    close: async () => {
      isClosing = true;
      // Waits for pending calls before closing: a retry on a closed channel would throw an uncaught error.
      await Promise.allSettled(pending);
      await connection.close();
    },
  };
}

function propagateTrace(traceparent: () => string | undefined): WorkflowClientInterceptor {
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

const KEYWORD = proto.temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD;
const READY_TIMEOUT_MS = 30_000;
const POLL_INTERVAL_MS = 100;

export function searchAttributes(
  values: { [name in SearchAttributeName]?: string | undefined },
): SearchAttributePair[] {
  return searchAttributeNames.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [{ key: defineSearchAttributeKey(name, 'KEYWORD'), value }];
  });
}

/** Registers missing search attributes and waits for the server. Idempotent, even concurrently. */
export async function registerSearchAttributes({ client, namespace, call }: TemporalConnection): Promise<void> {
  const operator = client.connection.operatorService;
  const known = await call(() => operator.listSearchAttributes({ namespace }), READY_TIMEOUT_MS);
  const missing = searchAttributeNames.filter((name) => !(name in (known.customAttributes ?? {})));
  if (missing.length > 0) {
    const types = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
    await call(() => operator.addSearchAttributes({ namespace, searchAttributes: types }), READY_TIMEOUT_MS);
  }

  // Temporal caches its search attributes, and rejects workflow starts with new ones until it has reloaded the cache.
  const query = searchAttributeNames.map((name) => `${name} = ''`).join(' OR ');
  const deadline = Date.now() + READY_TIMEOUT_MS;
  for (;;) {
    try {
      await call(() => client.workflowService.countWorkflowExecutions({ namespace, query }));
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(POLL_INTERVAL_MS);
    }
  }
}

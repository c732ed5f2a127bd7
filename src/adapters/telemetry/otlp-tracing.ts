import { setTimeout as delay } from 'node:timers/promises';
import { type Context, context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { OpenTraceSpan, SpanAttributes, SpanOptions, Tracing } from '#src/ports/telemetry.ts';
import { noopSpan } from './no-telemetry.ts';

const CLOSE_TIMEOUT_MS = 2_000;

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

export function createOtlpTracing(options: {
  /** Value of OTEL_EXPORTER_OTLP_ENDPOINT; the exporter itself reads headers, timeout and certificates. */
  endpoint: string;
  /** Share of traces to keep, 0 to 1. A `traceparent` from a client can turn its trace off, but not on. */
  sampleRatio: number;
  role: string;
  version: string;
}): Tracing {
  const ids = new RandomIdGenerator();
  const byRatio = new TraceIdRatioBasedSampler(options.sampleRatio);
  let givenSpanId: string | undefined;
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(
        resourceFromAttributes({
          'service.name': `agent-conversation-service-${options.role}`,
          'service.version': options.version,
          'service.namespace': 'agent-conversation-service',
        }),
      )
      // OTEL_RESOURCE_ATTRIBUTES overrides the attributes above.
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: new ParentBasedSampler({ root: byRatio, remoteParentSampled: byRatio }),
    idGenerator: {
      generateTraceId: () => ids.generateTraceId(),
      generateSpanId: () => givenSpanId ?? ids.generateSpanId(),
    },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: `${options.endpoint.replace(/\/+$/, '')}/v1/traces` }),
        scheduledDelayMillis: 1_000,
      }),
    ],
  });
  const contexts = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(contexts);
  const tracer = provider.getTracer('agent-conversation-service', options.version);

  const contextOf = (traceparent: string | undefined): Context => {
    const remote = traceparent === undefined ? null : parseTraceParent(traceparent);
    return remote === null ? contexts.active() : trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true });
  };
  const begin = ({ name, kind, attributes = {}, parent }: SpanOptions, startTime?: number): [Span, Context] => {
    const within = contextOf(parent);
    const facts = { kind: kinds[kind], attributes: given(attributes), ...(startTime !== undefined && { startTime }) };
    const span = tracer.startSpan(name, facts, within);
    return [span, trace.setSpan(within, span)];
  };

  return {
    isOn: true,
    start(facts): OpenTraceSpan {
      // Calls outside of a request or a workflow run, such as those of sweeps, are not traced.
      const isPart = facts.kind === 'client' || facts.kind === 'producer' || facts.kind === 'internal';
      if (isPart && facts.parent === undefined && trace.getSpan(contexts.active()) === undefined) return noopSpan;
      const [span, within] = begin(facts);
      return {
        rename: (name) => void span.updateName(name),
        set: (attributes) => void span.setAttributes(given(attributes)),
        run: (work) => contexts.with(within, work),
        end: (failure) => end(span, failure),
      };
    },
    traceparent() {
      const active = trace.getSpanContext(contexts.active());
      if (active === undefined) return undefined;
      return `00-${active.traceId}-${active.spanId}-0${active.traceFlags & 1}`;
    },
    within: (traceparent, work) => contexts.with(contextOf(traceparent), work),
    record({ spanId, startMs, endMs, failure, ...facts }) {
      givenSpanId = spanId;
      try {
        const [span] = begin(facts, startMs);
        end(span, failure, endMs);
      } finally {
        givenSpanId = undefined;
      }
    },
    ids() {
      const active = trace.getSpanContext(contexts.active());
      return active && { trace_id: active.traceId, span_id: active.spanId };
    },
    async close() {
      // If the collector is down, the unsent spans are lost instead of delaying the shutdown.
      const sent = provider.shutdown().catch(() => undefined);
      await Promise.race([sent, delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
    },
  };
}

function end(span: Span, failure: string | undefined, atMs?: number): void {
  if (failure !== undefined) {
    span.setAttribute('error.type', failure);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end(atMs);
}

function given(attributes: SpanAttributes): Record<string, string | number | boolean> {
  const named = Object.entries(attributes).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [[name, value] as const],
  );
  return Object.fromEntries(named);
}

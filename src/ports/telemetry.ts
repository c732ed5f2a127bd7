import type { CounterName, GaugeName, HistogramName, MetricLabels } from '#src/contracts/metrics.ts';

export type GaugeSample<Name extends GaugeName> = { labels: MetricLabels<Name>; value: number };

/** Records metrics. Recording is cheap and synchronous, and never throws. */
export type Metrics = {
  count<Name extends CounterName>(name: Name, labels: MetricLabels<Name>, by?: number): void;
  time<Name extends HistogramName>(name: Name, labels: MetricLabels<Name>, seconds: number): void;
  /**
   * Registers a gauge. When Prometheus scrapes, `read` computes its values, but at most once per `everyMs`. If `read`
   * throws or is slow, the gauge is missing from the scrape.
   */
  gauge<Name extends GaugeName>(
    name: Name,
    read: () => readonly GaugeSample<Name>[] | Promise<readonly GaugeSample<Name>[]>,
    everyMs?: number,
  ): void;
  page(): Promise<{ text: string; mediaType: string }>;
};

/** Attributes of a trace span: no texts, prompts, parameters or keys. Our names begin with `acs.`. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type SpanOptions = {
  name: string;
  kind: 'server' | 'client' | 'producer' | 'consumer' | 'internal';
  attributes?: SpanAttributes;
  parent?: string | undefined;
};

export type OpenTraceSpan = {
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  run<T>(work: () => T): T;
  /** Ends the span. `failure` must be an error code, because error messages may contain user text. */
  end(failure?: string): void;
};

/** Traces a request or workflow run across processes. Does nothing when no trace exporter is configured. */
export type Tracing = {
  readonly isOn: boolean;
  start(span: SpanOptions): OpenTraceSpan;
  traceparent(): string | undefined;
  /** Runs `work` within the trace of `traceparent`, or within the active trace if it is undefined. */
  within<T>(traceparent: string | undefined, work: () => T): T;
  record(span: SpanOptions & { spanId: string; startMs: number; endMs: number; failure?: string | undefined }): void;
  ids(): { trace_id: string; span_id: string } | undefined;
  close(): Promise<void>;
};

export type Telemetry = { metrics: Metrics; tracing: Tracing };

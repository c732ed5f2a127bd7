import type { CounterName, GaugeName, HistogramName, LabelsOf } from '#src/contracts/metrics.ts';

export type GaugeSample<Name extends GaugeName> = { labels: LabelsOf<Name>; value: number };

/** Prometheus metrics. Recording is cheap, synchronous and never throws. */
export type Metrics = {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  time<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, seconds: number): void;
  /** Calls `read` for a scrape, at most once per `everyMs`. A gauge that throws or is slow is missing until
   * its next read. */
  gauge<Name extends GaugeName>(
    name: Name,
    read: () => readonly GaugeSample<Name>[] | Promise<readonly GaugeSample<Name>[]>,
    everyMs?: number,
  ): void;
  /** @returns all metrics in the Prometheus text format */
  page(): Promise<{ text: string; mediaType: string }>;
};

/** OpenTelemetry's attribute names, and `acs.…` for our own. Never a text, prompt, parameter or key. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type SpanFacts = {
  name: string;
  kind: 'server' | 'client' | 'producer' | 'consumer' | 'internal';
  attributes?: SpanAttributes;
  /** `traceparent` of the parent span; by default the active span. */
  parent?: string | undefined;
};

export type OpenSpan = {
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Runs `work` with this span as the active one. */
  run<T>(work: () => T): T;
  /** @param failure an error code, because error messages may contain user text */
  end(failure?: string): void;
};

/** Spans of one request or run across processes. Does nothing when no trace exporter is configured. */
export type Tracing = {
  readonly isOn: boolean;
  start(span: SpanFacts): OpenSpan;
  /** @returns the active span as W3C `traceparent`, or undefined */
  traceparent(): string | undefined;
  /** Runs `work` within the trace of `traceparent`; if undefined, within the active one. */
  within<T>(traceparent: string | undefined, work: () => T): T;
  /** Records a span that was measured elsewhere and already has an id. */
  record(span: SpanFacts & { spanId: string; startMs: number; endMs: number; failure?: string | undefined }): void;
  /** @returns the fields that link log lines to the active span */
  ids(): { trace_id: string; span_id: string } | undefined;
  /** Exports the remaining spans. */
  close(): Promise<void>;
};

export type Telemetry = { metrics: Metrics; tracing: Tracing };

/** By the names of OpenTelemetry's conventions, and `acs.…` for ours. Never a text, a prompt, a parameter or a key. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type SpanFacts = {
  name: string;
  kind: 'server' | 'client' | 'producer' | 'consumer' | 'internal';
  attributes?: SpanAttributes;
  /** The span that this one is a part of, as W3C writes it; the active one where it is left out. */
  parent?: string | undefined;
};

export type OpenSpan = {
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Everything that `work` does, and what follows from it, is a part of this span. */
  run<T>(work: () => T): T;
  /** @param failure a code: messages of errors may hold texts */
  end(failure?: string): void;
};

/**
 * What belongs to one request or run, wherever it is done. Where nobody collects traces all of this does nothing, and
 * costs as much.
 */
export type Tracing = {
  readonly isOn: boolean;
  start(span: SpanFacts): OpenSpan;
  /** The active span as W3C writes it (`traceparent`); undefined outside of every trace. */
  traceparent(): string | undefined;
  /** Goes on with a trace that has come from elsewhere, or was kept; where there is none, with the active one. */
  within<T>(traceparent: string | undefined, work: () => T): T;
  /** A span that was measured elsewhere and has an id already. */
  record(span: SpanFacts & { spanId: string; startMs: number; endMs: number; failure?: string | undefined }): void;
  /** For lines of the log. */
  ids(): { trace_id: string; span_id: string } | undefined;
  /** Sends what is left. */
  close(): Promise<void>;
};

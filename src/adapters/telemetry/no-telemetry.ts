import type { OpenTraceSpan, Telemetry } from '#src/ports/telemetry.ts';

const ignore = () => undefined;
export const noopSpan: OpenTraceSpan = { rename: ignore, set: ignore, run: (work) => work(), end: ignore };

export const noopTelemetry: Telemetry = {
  metrics: {
    count: ignore,
    time: ignore,
    gauge: ignore,
    page: async () => ({ text: '', mediaType: 'text/plain' }),
  },
  tracing: {
    isOn: false,
    start: () => noopSpan,
    traceparent: ignore,
    within: (_traceparent, work) => work(),
    record: ignore,
    ids: ignore,
    close: async () => undefined,
  },
};

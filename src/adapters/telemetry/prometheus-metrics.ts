import { setTimeout as delay } from 'node:timers/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type CounterName, type GaugeName, type HistogramName, metricCatalog } from '#src/contracts/metrics.ts';
import type { GaugeSample, Metrics } from '#src/ports/telemetry.ts';

/** Timeout for reading gauges; Prometheus gives up a scrape after 10 s by default. */
const READ_TIMEOUT_MS = 3_000;

type AnySample = GaugeSample<GaugeName>;

/**
 * @param options.others reads further metrics in the Prometheus text format, which are appended to this process's own
 */
export function createPrometheusMetrics(options: { others?: () => Promise<string> }): Metrics {
  const { others = async () => '' } = options;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const counters = new Map<CounterName, Counter>();
  const histograms = new Map<HistogramName, Histogram>();
  for (const [name, facts] of Object.entries(metricCatalog)) {
    const described = { name, help: facts.help, labelNames: facts.labels, registers: [registry] };
    if (facts.type === 'counter') {
      const counter = new Counter(described);
      counters.set(name as CounterName, counter);
    } else if (facts.type === 'histogram') {
      histograms.set(name as HistogramName, new Histogram({ ...described, buckets: [...facts.buckets] }));
    }
  }

  return {
    count: (name, labels, by = 1) => counters.get(name)?.inc(labels, by),
    time: (name, labels, seconds) => histograms.get(name)?.observe(labels, seconds),

    gauge(name, read, everyMs = 0) {
      const { help, labels } = metricCatalog[name];
      let samples: readonly AnySample[] = [];
      let readAgainMs = 0;
      const gauge = new Gauge({
        name,
        help,
        labelNames: labels,
        registers: [registry],
        async collect() {
          if (performance.now() >= readAgainMs) {
            readAgainMs = performance.now() + everyMs;
            samples = await inTime(read).catch(() => []);
          }
          gauge.reset();
          for (const sample of samples) gauge.set(sample.labels, sample.value);
          // A gauge that could not be read is absent instead of 0.
          if (samples.length === 0 && labels.length === 0) gauge.remove({});
        },
      });
    },

    async page() {
      const [own, rest] = await Promise.all([registry.metrics(), inTime(others).catch(() => '')]);
      return { text: `${own}${rest}`, mediaType: registry.contentType };
    },
  };
}

async function inTime<T>(read: () => T | Promise<T>): Promise<T> {
  const tooLate = new AbortController();
  const late = delay(READ_TIMEOUT_MS, undefined, { signal: tooLate.signal, ref: false }).then(() => {
    throw new Error(`the metrics were not read within ${READ_TIMEOUT_MS} ms`);
  });
  try {
    return await Promise.race([read(), late]);
  } finally {
    tooLate.abort();
    late.catch(() => undefined);
  }
}

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import manifest from '../../package.json' with { type: 'json' };
import { noopTelemetry } from '../adapters/telemetry/no-telemetry.ts';
import type { Config } from '../config.ts';
import type { Metrics, Telemetry, Tracing } from '../ports/telemetry.ts';

export { noopTelemetry } from '../adapters/telemetry/no-telemetry.ts';

type MetricsExposure = 'own_port' | 'main_port' | 'nowhere';

/**
 * Decides on which port the API serves its metrics. Without `METRICS_PORT`, it serves them on the main port only if no
 * other machine can reach it, because metrics reveal how much a deployment is used, and for what.
 */
export function chooseMetricsExposure({
  metricsPort,
  server,
}: Pick<Config, 'metricsPort' | 'server'>): MetricsExposure {
  if (metricsPort !== null) return 'own_port';
  const isBehindProxy = server.publicUrl !== null || server.trustProxy !== false;
  return isLoopback(server.host) && !isBehindProxy ? 'main_port' : 'nowhere';
}

/**
 * Starts metrics and tracing as configured; loads their libraries only if they are enabled.
 * @param others returns additional metrics of the process in the Prometheus format
 */
export async function startTelemetry(
  config: Config,
  role: 'api' | 'worker',
  others?: () => Promise<string>,
): Promise<Telemetry> {
  const isMeasured = role === 'worker' ? config.worker !== null : chooseMetricsExposure(config) !== 'nowhere';
  if (!isMeasured && config.tracing === null) return noopTelemetry;
  return {
    metrics: isMeasured ? await openMetrics(others) : noopTelemetry.metrics,
    tracing: config.tracing === null ? noopTelemetry.tracing : await openTracing(config.tracing, role),
  };
}

async function openMetrics(others: (() => Promise<string>) | undefined): Promise<Metrics> {
  const { createPrometheusMetrics } = await import('../adapters/telemetry/prometheus-metrics.ts');
  return createPrometheusMetrics(others === undefined ? {} : { others });
}

async function openTracing(settings: NonNullable<Config['tracing']>, role: string): Promise<Tracing> {
  const { createOtlpTracing } = await import('../adapters/telemetry/otlp-tracing.ts');
  return createOtlpTracing({ ...settings, role, version: manifest.version });
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || (isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback');
}

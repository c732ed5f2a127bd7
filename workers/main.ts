import { ConfigError, loadConfig } from '#src/config.ts';
import { openTelemetry } from '#src/container/telemetry.ts';
import { createContainer } from '#src/container.ts';
import { metricsResponse, probeResponse, startPlainServer } from '#src/http/server/http-server.ts';
import { findEngineMetrics } from './engine-metrics.ts';
import { startWorkers } from './run.ts';
import { installRuntime } from './runtime.ts';
import { measureWork } from './work-metrics.ts';

async function main(): Promise<void> {
  const config = loadConfig(process.env, 'worker');
  const engine = config.worker === null ? null : await findEngineMetrics();
  const telemetry = await openTelemetry(config, 'worker', engine?.read);
  const container = createContainer(config, 'worker', telemetry);
  installRuntime(container.logger, engine?.bindAddress);
  measureWork(container);
  const workers = startWorkers(container);
  const probes = config.worker && {
    server: await startPlainServer(
      config.worker,
      { host: 'WORKER_HOST', port: 'WORKER_PORT' },
      {
        '/healthz': () => probeResponse(true, { yes: 'ok', no: 'down' }),
        '/readyz': () => probeResponse(workers.isReady(), { yes: 'ready', no: 'not_ready' }),
        '/metrics': metricsResponse(telemetry.metrics),
      },
    ),
    place: config.worker,
  };
  if (probes) container.logger.info(probes.place, 'the worker is listening');
  const stop = () => void workers.shutdown();
  // Each time: a second signal must not cut the stop short.
  process.on('SIGTERM', stop).on('SIGINT', stop);
  await workers.finished;
  await probes?.server.close();
  await container.close();
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});

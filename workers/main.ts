import { ConfigError, loadConfig } from '#src/config.ts';
import { startTelemetry } from '#src/container/telemetry.ts';
import { createContainer } from '#src/container.ts';
import { createMetricsResponse, createProbeResponse, startProbeServer } from '#src/http/server/http-server.ts';
import { startWorkers } from './run.ts';
import { createTemporalSdkMetricsSource, installTemporalRuntime, registerJobGauges } from './telemetry.ts';

async function main(): Promise<void> {
  const config = loadConfig(process.env, 'worker');
  const sdkMetrics = config.worker === null ? null : await createTemporalSdkMetricsSource();
  const telemetry = await startTelemetry(config, 'worker', sdkMetrics?.read);
  const container = createContainer(config, 'worker', telemetry);
  installTemporalRuntime(container.logger, sdkMetrics?.bindAddress);
  registerJobGauges(container);
  const workers = startWorkers(container);
  const probes = config.worker && {
    server: await startProbeServer(
      config.worker,
      { host: 'WORKER_HOST', port: 'WORKER_PORT' },
      {
        '/healthz': () => createProbeResponse(true, { yes: 'ok', no: 'down' }),
        '/readyz': () => createProbeResponse(workers.isReady(), { yes: 'ready', no: 'not_ready' }),
        '/metrics': createMetricsResponse(telemetry.metrics),
      },
    ),
    address: config.worker,
  };
  if (probes) container.logger.info(probes.address, 'the worker is listening');
  const stop = () => void workers.shutdown();
  // `on`, not `once`: a second signal must not kill the process during the shutdown.
  process.on('SIGTERM', stop).on('SIGINT', stop);
  await workers.finished;
  await probes?.server.close();
  await container.close();
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});

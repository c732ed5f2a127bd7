import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.ts';
import { ConfigError, loadConfig } from './config.ts';
import { chooseMetricsExposure, startTelemetry } from './container/telemetry.ts';
import { createContainer } from './container.ts';
import {
  createGracefulServer,
  createMetricsResponse,
  listenOnPort,
  startProbeServer,
} from './http/server/http-server.ts';

/** Timeout for receiving a request. Node's default, five minutes, is too short for large uploads over slow lines. */
const UPLOAD_TIMEOUT_MS = 6 * 60 * 60_000;

/** Maximum size of URL and headers: query parameters may have thousands of percent-encoded characters. */
const MAX_HEADER_BYTES = 64 * 1024;

/** How long a shutdown waits for open requests; longer than for event streams, which first send an `error` event. */
const REQUEST_TIMEOUT_MS = 25_000;

/** How long a shutdown waits for chat answers; shorter than for event streams, which report how the answers ended. */
const ANSWER_TIMEOUT_MS = 18_000;

async function main(): Promise<void> {
  const config = loadConfig(process.env);
  const telemetry = await startTelemetry(config, 'api');
  const container = createContainer(config, 'api', telemetry);
  const app = createApp(container);
  const server = createServer(
    {
      requestTimeout: UPLOAD_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      keepAliveTimeout: config.server.keepAliveMs,
    },
    app.express,
  );
  const gracefulServer = createGracefulServer(server);

  const { host } = config.server;
  const metricsServer =
    config.metricsPort === null
      ? null
      : await startProbeServer(
          { host, port: config.metricsPort },
          { host: 'HOST', port: 'METRICS_PORT' },
          { '/metrics': createMetricsResponse(telemetry.metrics) },
        );
  await listenOnPort(server, config.server, { host: 'HOST', port: 'PORT' });
  const metrics = { own_port: config.metricsPort, main_port: config.server.port, nowhere: null }[
    chooseMetricsExposure(config)
  ];
  container.logger.info({ host, port: config.server.port, metricsPort: metrics }, 'the API is listening');

  const signals = (['SIGTERM', 'SIGINT'] as const).map((signal) => {
    // Keeps a listener registered, because without one a second signal would kill the process during the shutdown.
    process.on(signal, () => undefined);
    return once(process, signal);
  });
  await Promise.race(signals);

  // The API serves all requests until load balancers have noticed that the readiness probe fails.
  app.announceShutdown();
  gracefulServer.announce();
  container.logger.info({ delayMs: config.server.shutdownDelayMs }, 'the API is shutting down');
  await delay(config.server.shutdownDelayMs);
  await Promise.all([app.drain(), container.chat.drain(ANSWER_TIMEOUT_MS), gracefulServer.close(REQUEST_TIMEOUT_MS)]);
  await metricsServer?.close();
  await container.close();
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});

import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.ts';
import { ConfigError, loadConfig } from './config.ts';
import { metricsPlaceOf, openTelemetry } from './container/telemetry.ts';
import { createContainer } from './container.ts';
import { createGracefulServer, listen, metricsResponse, startProbeServer } from './http/server/http-server.ts';

/** Timeout for receiving a request: a large upload over a slow line takes longer than Node's five minutes. */
const UPLOAD_TIMEOUT_MS = 6 * 60 * 60_000;

/**
 * Limit of URL and headers together: some query parameters have thousands of characters, and percent-encoding makes
 * them longer.
 */
const MAX_HEADER_BYTES = 64 * 1024;

/** Time for open requests at a shutdown; longer than for event streams, which first send an `error` event. */
const REQUEST_TIMEOUT_MS = 25_000;

/** Time for chat answers in progress at a shutdown; shorter than for event streams, which report how they ended. */
const ANSWER_TIMEOUT_MS = 18_000;

async function main(): Promise<void> {
  const config = loadConfig(process.env);
  const telemetry = await openTelemetry(config, 'api');
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
          { '/metrics': metricsResponse(telemetry.metrics) },
        );
  await listen(server, config.server, { host: 'HOST', port: 'PORT' });
  const metrics = { own_port: config.metricsPort, main_port: config.server.port, nowhere: null }[
    metricsPlaceOf(config)
  ];
  container.logger.info({ host, port: config.server.port, metricsPort: metrics }, 'the API is listening');

  const signals = (['SIGTERM', 'SIGINT'] as const).map((signal) => {
    // A listener stays registered, because a second signal would otherwise kill the process.
    process.on(signal, () => undefined);
    return once(process, signal);
  });
  await Promise.race(signals);

  // All requests are served until load balancers have noticed the failed readiness probe.
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

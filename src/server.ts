import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.ts';
import { ConfigError, loadConfig } from './config.ts';
import { metricsPlaceOf, openTelemetry } from './container/telemetry.ts';
import { createContainer } from './container.ts';
import { createGracefulServer, listen, metricsAnswer, startPlainServer } from './http/server/servers.ts';

/** For a whole request: a large upload over a slow line takes longer than Node's five minutes. */
const UPLOAD_TIMEOUT_MS = 6 * 60 * 60_000;

/** Of an address with its headers: some take texts of thousands of characters, which grow when they are encoded. */
const MAX_HEADER_BYTES = 64 * 1024;

/** How long requests that are under way may take, uploads too: a little more than streams, so that these can say why they end. */
const REQUEST_TIMEOUT_MS = 25_000;

/** How long answers may still be written: a little less than streams may stay open, so that these say why they end. */
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
  const leaving = createGracefulServer(server);

  const { host } = config.server;
  const metricsServer =
    config.metricsPort === null
      ? null
      : await startPlainServer(
          { host, port: config.metricsPort },
          { host: 'HOST', port: 'METRICS_PORT' },
          { '/metrics': metricsAnswer(telemetry.metrics) },
        );
  await listen(server, config.server, { host: 'HOST', port: 'PORT' });
  const metrics = { own_port: config.metricsPort, main_port: config.server.port, nowhere: null }[
    metricsPlaceOf(config)
  ];
  container.logger.info({ host, port: config.server.port, metricsPort: metrics }, 'the API is listening');

  const signals = (['SIGTERM', 'SIGINT'] as const).map((signal) => {
    // A second signal must not cut the stop short.
    process.on(signal, () => undefined);
    return once(process, signal);
  });
  await Promise.race(signals);

  // Readiness goes first, and everything is served until balancers have seen it and look elsewhere.
  app.leave();
  leaving.announce();
  container.logger.info({ delayMs: config.server.shutdownDelayMs }, 'the API is leaving');
  await delay(config.server.shutdownDelayMs);
  await Promise.all([app.drain(), container.chat.drain(ANSWER_TIMEOUT_MS), leaving.close(REQUEST_TIMEOUT_MS)]);
  await metricsServer?.close();
  await container.close();
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});

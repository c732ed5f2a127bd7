import { once } from 'node:events';
import { createServer } from 'node:http';
import { createLogger } from './adapters/logger.ts';
import { loadCodecServerConfig } from './config/temporal-config.ts';
import { ConfigError } from './config.ts';
import { createCodecApp } from './http/server/codec-app.ts';
import { listenOnPort } from './http/server/http-server.ts';
import { createPayloadCodec } from './temporal/data-converter.ts';

/**
 * Runs the codec server as a process of its own, which holds only the payload keys. Its users need no access to the
 * API.
 */
async function main(): Promise<void> {
  const { host, port, payloadKeys, ...access } = loadCodecServerConfig(process.env);
  const logger = createLogger({ level: access.logLevel, base: { role: 'codec' } }, process.stdout.fd);
  const server = createServer(createCodecApp({ codec: createPayloadCodec(payloadKeys), ...access, logger }));

  await listenOnPort(server, { host, port }, { host: 'CODEC_HOST', port: 'CODEC_PORT' });
  logger.info({ host, port }, 'the codec server is listening');

  await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  server.close();
  server.closeIdleConnections();
  await once(server, 'close');
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});

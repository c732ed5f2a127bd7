import { once } from 'node:events';
import { connect } from 'node:net';
import type { TemporalConfig } from '#src/config.ts';
import { errorReason } from './admin/output.ts';
import type { StartSettings } from './settings.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const TIMEOUT_MS = 5_000;

/**
 * Checks that the external services in the settings accept connections, so that a wrong address is reported within
 * seconds.
 * @param say receives a warning for each optional service that cannot be reached: search works without vectors, and the
 * API without a model
 * @throws StartFailure if Temporal cannot be reached, because nothing works without it
 */
export async function checkAddresses(
  settings: StartSettings,
  temporalConfig: TemporalConfig,
  say: (line: string) => void,
): Promise<void> {
  const { temporal, qdrant, provider, alignmentBaseUrl } = settings;
  const optional = [
    { setting: 'QDRANT_URL', url: qdrant?.kind === 'external' ? qdrant.url : null },
    { setting: 'OPENAI_BASE_URL', url: provider?.baseUrl },
    { setting: 'ALIGNMENT_EMBEDDING_BASE_URL', url: alignmentBaseUrl },
  ];
  await Promise.all([
    temporal.kind === 'external' ? checkTemporal(temporalConfig) : null,
    ...optional.map(async ({ setting, url }) => {
      const reason = url ? await whyNoAnswer(url) : null;
      if (reason !== null) say(`  ${setting}: nothing answers at ${url} yet: ${reason}`);
    }),
  ]);
}

async function checkTemporal(config: TemporalConfig): Promise<void> {
  const { address, namespace } = config;
  // Imports the Temporal client only when it is needed, because it takes longer to load than many services to start.
  const { createTemporalConnection } = await import('#src/temporal/connection.ts');
  const { client, call, close } = createTemporalConnection(config);
  try {
    await call(() => client.workflowService.describeNamespace({ namespace }), TIMEOUT_MS);
  } catch (error) {
    throw new StartFailure(
      `TEMPORAL_ADDRESS: the server at ${address}, or its namespace ${namespace}, could not be reached: ${errorReason(error)}`,
    );
  } finally {
    await close();
  }
}

/** Returns null if the port accepts a TCP connection. A request would need an API key. */
async function whyNoAnswer(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const socket = connect({ host, port: Number(port) || (protocol === 'https:' ? 443 : 80) });
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return null;
  } catch (error) {
    return errorReason(error);
  } finally {
    socket.destroy();
  }
}

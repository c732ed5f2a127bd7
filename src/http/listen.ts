import { once } from 'node:events';
import type { Server } from 'node:net';
import { ConfigError } from '#src/config/config-error.ts';

/** What a system refuses a place for, by its code. */
const ofPort: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is taken by another process',
  EACCES: 'may not be taken by this user',
};
const ofHost = ['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'ENOTFOUND', 'EAI_AGAIN'];

/**
 * Settles once the server listens.
 * @param settings the names of those that the place comes from
 * @throws ConfigError where nobody can listen
 */
export async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  settings: { host: string; port: string },
): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = Object(error);
    const why = ofPort[code];
    if (why !== undefined) throw new ConfigError(`wrong setting ${settings.port}: ${port} of ${host} ${why}`);
    if (!ofHost.includes(code)) throw error;
    throw new ConfigError(`wrong setting ${settings.host}: ${host} is no address of this machine`);
  }
}

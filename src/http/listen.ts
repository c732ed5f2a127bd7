import { once } from 'node:events';
import type { Server } from 'node:net';
import { ConfigError } from '#src/config/config-error.ts';

/** What a system refuses an address for, by its code: which setting is to be changed, and why. */
const refusals: Readonly<Record<string, { of: 'host' | 'port'; why: string }>> = {
  EADDRINUSE: { of: 'port', why: 'is taken by another process' },
  EACCES: { of: 'port', why: 'may not be taken by this user' },
  EADDRNOTAVAIL: { of: 'host', why: 'is no address of this machine' },
  ENOTFOUND: { of: 'host', why: 'is no address of this machine' },
};

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
    const refusal = refusals[Object(error).code];
    if (refusal === undefined) throw error;
    throw new ConfigError(`wrong setting ${settings[refusal.of]}: ${host}:${port} ${refusal.why}`);
  }
}

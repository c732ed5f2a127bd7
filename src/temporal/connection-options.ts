import type { TemporalConfig } from '#src/config.ts';

/** Where the server is, and how it is told who we are. */
export type ServerAccess = Pick<TemporalConfig, 'address'> & Partial<Pick<TemporalConfig, 'tls' | 'apiKey'>>;

/** For connections of clients and of workers alike. */
export function connectionOptions({ address, tls, apiKey }: ServerAccess) {
  return { address, ...(tls && { tls }), ...(apiKey && { apiKey }) };
}

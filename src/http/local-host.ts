import type { IncomingHttpHeaders } from 'node:http';

const localHost = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

/**
 * Whether a request was sent to this machine by a name of its own: a page that has made its own name lead here, and who
 * comes by a proxy that passes the name on, were sent elsewhere.
 */
export function isSentToLocalHost({ host }: IncomingHttpHeaders): boolean {
  return localHost.test(host ?? '');
}

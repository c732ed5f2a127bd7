import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Of servers in tests, in milliseconds. Node closes an idle connection after 5 s. Where the clock of a busy process jumps
 * by that, the next request is sent into a connection that is just being closed.
 */
const keepAliveTimeout = 75_000;

/** Listens on a port of its own. `place` is host and port, as in `EGRESS_ALLOW`. */
export async function serveLocally(listener?: RequestListener) {
  const server = createServer({ keepAliveTimeout }, listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { server, place, baseUrl: `http://${place}`, close };
}

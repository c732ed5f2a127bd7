import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A connection between a client and a service that a test can break. */
export type TcpProxy = {
  port: number;
  /** Until it is healed, resets open connections, and new ones at once. */
  cut(): void;
  heal(): void;
  /** Until it is healed, accepts connections and passes nothing on. */
  swallow(): void;
  /**
   * Passes on the next request with this text, and resets the connection in place of its answer. With `after`, it is the
   * next one on a connection that has carried that text before, such as the commit of one transaction. Settles when it
   * has happened.
   */
  dropAnswerTo(text: string, after?: string): Promise<void>;
  close(): Promise<void>;
};

export async function startTcpProxy(upstream: { port: number }): Promise<TcpProxy> {
  const clients = new Set<Socket>();
  let isCut = false;
  let isSwallowing = false;
  let drop: { text: string; after: string | undefined; happened: () => void } | null = null;

  const server = createServer({ noDelay: true }, (client) => {
    client.on('error', () => undefined);
    if (isCut) {
      client.resetAndDestroy();
      return;
    }
    clients.add(client);
    const service = connect({ port: upstream.port, host: '127.0.0.1', noDelay: true });
    service.on('error', () => client.resetAndDestroy());
    let unanswered: (() => void) | null = null;
    let armed: typeof drop = null;

    client.on('data', (request) => {
      if (isSwallowing) return;
      if (drop !== null && (drop.after === undefined || request.includes(drop.after))) armed = drop;
      if (armed !== null && armed === drop && request.includes(armed.text)) {
        unanswered = armed.happened;
        drop = null;
      }
      service.write(request);
    });
    service.on('data', (answer) => {
      if (isSwallowing) return;
      if (unanswered !== null) {
        client.resetAndDestroy();
        unanswered();
        return;
      }
      client.write(answer);
    });
    service.on('end', () => client.end());
    client.on('end', () => service.end());
    client.on('close', () => {
      clients.delete(client);
      service.destroy();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  const reset = () => {
    for (const client of clients) client.resetAndDestroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      isCut = true;
      reset();
    },
    heal: () => {
      isCut = false;
      isSwallowing = false;
    },
    swallow: () => {
      isSwallowing = true;
    },
    dropAnswerTo: (text, after) =>
      new Promise((happened) => {
        drop = { text, after, happened };
      }),
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      reset();
      await closed;
    },
  };
}

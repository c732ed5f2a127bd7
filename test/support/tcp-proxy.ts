import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A line between a client and a service, to be cut in the ways that lines are. */
export type TcpProxy = {
  port: number;
  /** From now on, until it is healed: open connections are reset, new ones at once. */
  cut(): void;
  heal(): void;
  /** From now on, until it is healed: connections are taken and kept, and whatever comes is never passed on. */
  swallow(): void;
  /** Open connections only. @returns how many there were */
  reset(): number;
  /** Whatever comes from the service arrives later by this. */
  delay(delayMs: number): void;
  /**
   * The next request in which this text stands is done, but its answer never arrives: the connection is reset in its
   * place. With `after`, it is the next one on a connection that has carried that text before, such as the commit of
   * one transaction. Settles when it has happened.
   */
  dropAnswerTo(text: string, after?: string): Promise<void>;
  close(): Promise<void>;
};

/** On a port of 127.0.0.1 before a service there. */
export async function startTcpProxy(upstream: { port: number }): Promise<TcpProxy> {
  const clients = new Set<Socket>();
  let isCut = false;
  let isSwallowing = false;
  let delayMs = 0;
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
      if (delayMs === 0) client.write(answer);
      else setTimeout(() => client.writable && client.write(answer), delayMs);
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
    const count = clients.size;
    for (const client of clients) client.resetAndDestroy();
    return count;
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
    reset,
    delay: (ms) => {
      delayMs = ms;
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

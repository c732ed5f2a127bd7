import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

/** For clients that hold a connection open though nothing is asked on it any more. */
const LINGER_MS = 1_000;

/** How a server leaves those that ask it, without one of them losing a request. */
export type LeavingServer = {
  /** From now on every answer ends its connection, so that a balancer opens the next one elsewhere. */
  announce(): void;
  /**
   * Takes no connection any more. Settles when the requests under way have ended, those left after `timeoutMs` by
   * force, and no other has come for `lingerMs` on a connection that is kept.
   */
  close(timeoutMs: number, lingerMs?: number): Promise<void>;
};

/** To be made before the server listens. */
export function createLeavingServer(server: Server): LeavingServer {
  const answers = new Set<ServerResponse>();
  let isLeaving = false;
  let onQuiet = () => {};
  const quiet = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    onQuiet = resolve;
    return promise;
  };

  server.prependListener('request', (_req, res) => {
    answers.add(res);
    res.once('close', () => {
      answers.delete(res);
      if (answers.size === 0) onQuiet();
    });
    if (isLeaving) endConnectionWith(res);
  });

  return {
    announce() {
      isLeaving = true;
      for (const answer of answers) endConnectionWith(answer);
    },

    async close(timeoutMs, lingerMs = LINGER_MS) {
      const deadline = performance.now() + timeoutMs;
      const ended = new AbortController();
      const wait = (ms: number) => delay(ms, undefined, { signal: ended.signal }).catch(() => undefined);
      const closed = once(server, 'close').then(() => ended.abort());
      // Node closes idle connections with this: after a delay that is long enough nobody asks anything on them any more.
      server.close();
      while (!ended.signal.aborted && performance.now() < deadline) {
        if (answers.size > 0) await Promise.race([quiet(), wait(deadline - performance.now())]);
        else {
          await wait(lingerMs);
          // What was asked meanwhile, on a connection that an answer had promised to keep, is answered like the rest.
          if (answers.size === 0) break;
        }
      }
      ended.abort();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * An answer that has begun has promised to keep its connection, and its client may use that as soon as it has the last
 * byte: what is asked there next ends the connection.
 */
function endConnectionWith(res: ServerResponse): void {
  if (!res.headersSent) res.setHeader('Connection', 'close');
}

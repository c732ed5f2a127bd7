import { once } from 'node:events';
import {
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
  createServer as createHttp2Server,
  createSecureServer,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** @param cutAll ends the open connections, for which a closing server waits */
async function listen(server: Server, cutAll: () => void) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    const closed = once(server, 'close');
    server.close();
    cutAll();
    await closed;
  };
  return { port: (server.address() as AddressInfo).port, close };
}

export type TcpProxy = Awaited<ReturnType<typeof startTcpProxy>>;

/** A connection between a client and a service that a test can break. */
export async function startTcpProxy(upstream: { port: number }) {
  const clients = new Set<Socket>();
  let mode: 'open' | 'cut' | 'silent' = 'open';
  let drop: { text: string; after: string | undefined; happened: () => void } | null = null;
  const reset = () => {
    for (const client of clients) client.resetAndDestroy();
  };

  const server = createServer({ noDelay: true }, (client) => {
    client.on('error', () => undefined);
    if (mode === 'cut') return client.resetAndDestroy();
    clients.add(client);
    const service = connect({ port: upstream.port, host: '127.0.0.1', noDelay: true });
    service.on('error', () => client.resetAndDestroy());
    let armed: typeof drop = null;
    let unanswered: (() => void) | null = null;
    client.on('data', (request) => {
      if (mode === 'silent') return;
      if (drop !== null && (drop.after === undefined || request.includes(drop.after))) armed = drop;
      if (armed !== null && armed === drop && request.includes(armed.text)) {
        unanswered = armed.happened;
        drop = null;
      }
      service.write(request);
    });
    service.on('data', (answer) => {
      if (mode === 'silent') return;
      if (unanswered === null) return client.write(answer);
      client.resetAndDestroy();
      unanswered();
    });
    service.on('end', () => client.end());
    client.on('end', () => service.end());
    client.on('close', () => {
      clients.delete(client);
      service.destroy();
    });
  });

  return {
    ...(await listen(server, reset)),
    /** Until it is healed, resets open connections, and new ones at once. */
    cut: () => {
      mode = 'cut';
      reset();
    },
    /** Until it is healed, accepts connections and passes nothing on. */
    swallow: () => {
      mode = 'silent';
    },
    heal: () => {
      mode = 'open';
    },
    /**
     * Passes on the next request with this text, and resets the connection in place of its answer. With `after`, it is
     * the next one on a connection that has carried that text before, such as the commit of one transaction. Settles
     * when it has happened.
     */
    dropAnswerTo: (text: string, after?: string) =>
      new Promise<void>((happened) => {
        drop = { text, after, happened };
      }),
  };
}

/** A call that does not pass is held for ever, or is done and its caller gets a timeout. */
type Fate = 'hold' | 'drop_answer';

export type GrpcProxy = Awaited<ReturnType<typeof startGrpcProxy>>;

/**
 * A proxy before Temporal that knows its calls by name.
 * @param upstream host:port
 * @param options.tls of the proxy, if it uses TLS
 * @param options.apiKey required of each call, if given
 */
export async function startGrpcProxy(upstream: string, options: { tls?: SecureServerOptions; apiKey?: string } = {}) {
  const { tls, apiKey } = options;
  const fates: { method: string; fate: Fate; happened: () => void }[] = [];
  const server = tls === undefined ? createHttp2Server() : createSecureServer(tls);
  const sessions = new Set<{ destroy(): void }>();

  server.on('session', (session) => {
    const service = connectHttp2(`http://${upstream}`);
    for (const end of [session, service]) {
      sessions.add(end);
      end.on('error', () => undefined).on('close', () => sessions.delete(end));
    }
    session.on('close', () => service.destroy());
    service.on('close', () => session.destroy());
    session.on('stream', async (call: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      call.on('error', () => undefined);
      if (apiKey !== undefined && headers.authorization !== `Bearer ${apiKey}`) return call.respond(...unknownCaller);
      const method = String(headers[':path']).split('/').at(-1);
      const fated = fates.find((candidate) => candidate.method === method);
      if (fated !== undefined) fates.splice(fates.indexOf(fated), 1);
      if (fated?.fate === 'hold') return fated.happened();
      const request = service.request(headers);
      call.pipe(request);
      if (fated === undefined) return passAnswerOn(request, call);
      request.on('error', () => undefined).resume();
      await once(request, 'close');
      if (!call.destroyed) call.respond(...timedOut);
      fated.happened();
    });
  });

  const { port, close } = await listen(server, () => {
    for (const session of sessions) session.destroy();
  });
  return {
    address: `127.0.0.1:${port}`,
    close,
    /** The next call of this method, such as `StartWorkflowExecution`. Settles once it has met its fate. */
    next: (method: string, fate: Fate) => new Promise<void>((happened) => fates.push({ method, fate, happened })),
  };
}

function grpcError(status: string, message: string) {
  const headers = { 'content-type': 'application/grpc', 'grpc-status': status, 'grpc-message': message };
  return [{ ':status': 200, ...headers }, { endStream: true }] as const;
}
const timedOut = grpcError('4', 'the answer was dropped');
const unknownCaller = grpcError('16', 'Request unauthorized.');

function passAnswerOn(request: ClientHttp2Stream, call: ServerHttp2Stream): void {
  call.on('close', () => request.close(constants.NGHTTP2_CANCEL));
  request.on('error', () => call.close(constants.NGHTTP2_CANCEL));
  request.on('response', (answer, flags) => {
    if (call.destroyed) return;
    const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    call.respond(answer, { endStream, waitForTrailers: !endStream });
    if (endStream) return;
    let trailers: IncomingHttpHeaders = {};
    request.on('trailers', (last) => {
      trailers = last;
    });
    call.on('wantTrailers', () => call.sendTrailers(trailers));
    request.pipe(call);
  });
}

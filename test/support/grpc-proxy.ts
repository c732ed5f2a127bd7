import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  constants,
  createSecureServer,
  createServer,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';

const DEADLINE_EXCEEDED = '4';
const UNAUTHENTICATED = '16';

/** A call that does not pass is held for ever, or is done and its caller gets a timeout. */
type Fate = 'hold' | 'drop_answer';

/** A proxy before Temporal that knows its calls by name. */
export type GrpcProxy = {
  /** host:port */
  address: string;
  /** The next call of this method, such as `StartWorkflowExecution`. Settles once it has met its fate. */
  next(method: string, fate: Fate): Promise<void>;
  close(): Promise<void>;
};

/**
 * @param upstream host:port
 * @param tls the TLS options of the proxy, if it uses TLS
 * @param apiKey required of each call, if given
 */
export async function startGrpcProxy(
  upstream: string,
  { tls, apiKey }: { tls?: SecureServerOptions; apiKey?: string } = {},
): Promise<GrpcProxy> {
  const fates: { method: string; fate: Fate; happened: () => void }[] = [];
  const fateOf = (method: string) => {
    const index = fates.findIndex((candidate) => candidate.method === method);
    return index < 0 ? undefined : fates.splice(index, 1)[0];
  };
  const server = tls === undefined ? createServer() : createSecureServer(tls);
  const sessions = new Set<{ destroy(): void }>();

  server.on('session', (session) => {
    const service = connect(`http://${upstream}`);
    for (const end of [session, service]) {
      sessions.add(end);
      end.on('error', () => undefined).on('close', () => sessions.delete(end));
    }
    session.on('close', () => service.destroy());
    service.on('close', () => session.destroy());
    session.on('stream', (call: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      call.on('error', () => undefined);
      if (apiKey !== undefined && headers.authorization !== `Bearer ${apiKey}`) {
        return call.respond(unknownCaller, { endStream: true });
      }
      const fate = fateOf(String(headers[':path']).split('/').at(-1) ?? '');
      switch (fate?.fate) {
        case undefined:
          return forward(call, headers, service);
        case 'hold':
          return fate.happened();
        case 'drop_answer':
          return void untilDone(call, headers, service).then(() => {
            if (!call.destroyed) call.respond(timedOut, { endStream: true });
            fate.happened();
          });
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    next: (method, fate) => new Promise((happened) => fates.push({ method, fate, happened })),
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}

const grpcError = (status: string, message: string) => ({
  ...{ ':status': 200, 'content-type': 'application/grpc' },
  ...{ 'grpc-status': status, 'grpc-message': message },
});
const timedOut = grpcError(DEADLINE_EXCEEDED, 'the answer was dropped');
const unknownCaller = grpcError(UNAUTHENTICATED, 'Request unauthorized.');

function forward(call: ServerHttp2Stream, headers: IncomingHttpHeaders, service: ClientHttp2Session): void {
  const request = service.request(headers);
  call.pipe(request);
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

async function untilDone(call: ServerHttp2Stream, headers: IncomingHttpHeaders, service: ClientHttp2Session) {
  const request = service.request(headers);
  call.pipe(request);
  request.on('error', () => undefined).resume();
  await once(request, 'close');
}

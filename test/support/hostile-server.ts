import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { serveLocally } from './local-server.ts';

/** A valid answer to a client, and what can be made of it. */
export type Answer = {
  mediaType: string;
  /** The beginning of a valid answer. */
  head: string;
  /** May follow it any number of times. */
  unit: string;
  /** Ends a valid answer. */
  tail: string;
  /** A well-formed answer of other types than expected. */
  wrong: string;
  /** Opens a level of nesting. */
  level: string;
  /** Almost as large as the client accepts. */
  manyBytes: number;
};

/** Valid answers: by path, and to all other requests whose URL does not contain `hostile`. */
export type Sound = { hostile: string; answers: Readonly<Record<string, string>>; otherwise: string };

const BYTE_EVERY_MS = 20;
const pieceBytes = 64 * 1024;
/** Unpacked size of a gzip bomb, which has a few hundred kilobytes itself. */
const unpackedBytes = 20_000_000;
const html = '<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Please sign in.<br></body></html>';

type Script = (response: ServerResponse, answer: Answer, socket: Socket) => unknown;

/** Writes a text again and again until the client disconnects, no faster than it reads. */
async function pour(stream: Writable, unit: string): Promise<void> {
  const piece = unit.repeat(Math.ceil(pieceBytes / unit.length));
  const closed = once(stream, 'close');
  while (!stream.destroyed) if (!stream.write(piece)) await Promise.race([once(stream, 'drain'), closed]);
}

async function drip(stream: Writable): Promise<void> {
  while (!stream.destroyed) {
    stream.write(' ');
    await delay(BYTE_EVERY_MS);
  }
}

/** Sends status, headers and the beginning of the answer. */
function begin(response: ServerResponse, { mediaType, head }: Answer, status = 200, headers = {}): ServerResponse {
  response.writeHead(status, { 'content-type': mediaType, ...headers }).write(head);
  return response;
}

const send = (response: ServerResponse, type: string, body: string | Buffer, headers = {}) =>
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...headers }).end(body);

export const hostileKinds = {
  'an endless body': (response, answer) => pour(begin(response, answer), answer.unit),
  'an endless body without a line end': (response, answer) => pour(begin(response, answer), 'a'),
  'a body that is announced as huge': (response, answer) =>
    pour(begin(response, answer, 200, { 'content-length': 10 ** 12 }), answer.unit),
  'a body in chunks of a byte': (response, answer, socket) => {
    begin(response, answer);
    return pour(socket, '1\r\na\r\n');
  },
  'headers that come byte by byte': (_, _answer, socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
    return drip(socket);
  },
  'headers without end': (_, _answer, socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    return pour(socket, `x-long: ${'a'.repeat(1_000)}\r\n`);
  },
  'a body that comes byte by byte': (response, answer) => drip(begin(response, answer)),
  'a refusal that comes byte by byte': (response, answer) => drip(begin(response, answer, 403)),
  'no answer': (_, _answer, socket) => once(socket, 'close'),
  'a body shorter than announced': (response, answer, socket) => {
    begin(response, answer, 200, { 'content-length': answer.head.length + 1_000 });
    socket.end();
  },
  'a gzip bomb': (response, { mediaType, head, unit }) => {
    const bomb = gzipSync(head + unit.repeat(Math.ceil(unpackedBytes / unit.length)), { level: 1 });
    send(response, mediaType, bomb, { 'content-encoding': 'gzip' });
  },
  'a page of HTML': (response) => send(response, 'text/html', html),
  'a refusal without end': (response, answer) => pour(begin(response, answer, 400), answer.unit),
  'a failure without end': (response, answer) => pour(begin(response, answer, 502), answer.unit),
  'wrong types': (response, { mediaType, wrong }) => send(response, mediaType, wrong),
  'a broken body': (response, { mediaType, head }) => send(response, mediaType, head),
  'deep nesting': (response, { mediaType, level }) => send(response, mediaType, level.repeat(50_000)),
  'many entries': (response, { mediaType, head, unit, tail, manyBytes }) =>
    send(response, mediaType, head + unit.repeat(Math.floor(manyBytes / unit.length)) + tail),
  'a connection that is reset': async (response, answer, socket) => {
    begin(response, answer, 200, { 'content-length': 100_000 });
    await delay(BYTE_EVERY_MS);
    socket.resetAndDestroy();
  },
  'a connection that is reset before the answer': (_, _answer, socket) => socket.resetAndDestroy(),
  'a redirect in a circle': (response) => response.writeHead(302, { location: response.req.url }).end(),
} satisfies Record<string, Script>;

export type HostileKind = keyof typeof hostileKinds;

/** The kinds that only a deadline of the client ends. */
export const slowKinds: readonly HostileKind[] = [
  'headers that come byte by byte',
  'a body that comes byte by byte',
  'a refusal that comes byte by byte',
  'no answer',
];

export type HostileServer = Awaited<ReturnType<typeof startHostileServer>>;

/** An HTTP server that answers in every way except the right one. */
export async function startHostileServer() {
  const sockets: Socket[] = [];
  const sent = () => sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  let [sentBefore, requests, underWay] = [0, 0, 0];
  let script: (response: ServerResponse) => unknown;

  const { server, place, close } = await serveLocally(async (request, response) => {
    requests += 1;
    underWay += 1;
    await text(request)
      .then(() => script(response))
      .catch(() => request.socket.destroy());
    underWay -= 1;
  });
  server.on('connection', (socket) => sockets.push(socket.setMaxListeners(0)));
  return {
    place,
    close,
    /** Bytes that were written since the last `behave`, whether or not they arrived. */
    sentBytes: () => sent() - sentBefore,
    requests: () => requests,
    /** Answers that are still being written; most are until the client disconnects. */
    underWay: () => underWay,
    drop: () => server.closeAllConnections(),
    /** Answers in this way from now on, except for what `sound` answers. */
    behave(kind: HostileKind, answer: Answer, sound?: Sound): void {
      [sentBefore, requests] = [sent(), 0];
      script = (response) => {
        const { pathname, href } = new URL(response.req.url ?? '', 'http://host');
        return sound === undefined || href.includes(sound.hostile)
          ? hostileKinds[kind](response, answer, response.req.socket)
          : send(response, 'application/json', sound.answers[pathname] ?? sound.otherwise);
      };
    },
  };
}

/** Runs as a process of its own if its work and memory must not be measured with those of the clients. */
if (process.argv[1] === import.meta.filename) {
  const server = await startHostileServer();
  process.on('message', (how: Parameters<typeof server.behave>) => {
    server.drop();
    server.behave(...how);
    process.send?.('ready');
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.(server.place);
}

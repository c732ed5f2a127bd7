import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

/** What a client would like to be answered, and how that goes on for ever. */
export type Answer = {
  mediaType: string;
  /** The beginning of a sound answer. */
  head: string;
  /** May follow it any number of times. */
  unit: string;
  /** Ends a sound answer. */
  tail: string;
  /** A whole answer that is well-formed, and of other types than it should be. */
  wrong: string;
  /** Opens a level of nesting. */
  level: string;
  /** Almost as large as the client takes. */
  manyBytes: number;
};

const BYTE_EVERY_MS = 20;
const pieceBytes = 64 * 1024;
/** Of a gzip bomb, which has a few hundred kilobytes itself. */
const unpackedBytes = 20_000_000;
const html = '<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Please sign in.<br></body></html>';

/** What the server answers as it should: by paths, and where the address does not hold the hostile part. */
export type Sound = { hostile: string; answers: Readonly<Record<string, string>>; otherwise: string };

/** What a server answers, after it has read a request; each writes until the client hangs up, or it is done. */
type Script = (line: HostileLine, answer: Answer) => Promise<void>;

export const hostileKinds = {
  'an endless body': (line, answer) => line.fill('chunked', answer, answer.unit),
  'an endless body without a line end': (line, answer) => line.fill('chunked', answer, 'a'),
  'a body that is announced as huge': (line, answer) => line.fill(`${10 ** 12}`, answer, answer.unit),
  'a body in chunks of a byte': async (line, { mediaType }) => {
    await line.begin(200, { 'content-type': mediaType, 'transfer-encoding': 'chunked' });
    await line.repeat('1\r\na\r\n');
  },
  'headers that come byte by byte': async (line) => {
    await line.write('HTTP/1.1 200 OK\r\nx-slow: ');
    await line.drip();
  },
  'headers without end': async (line) => {
    await line.write('HTTP/1.1 200 OK\r\n');
    await line.repeat(`x-long: ${'a'.repeat(1_000)}\r\n`);
  },
  'a body that comes byte by byte': (line, answer) => line.dripAfter(200, answer),
  'a refusal that comes byte by byte': (line, answer) => line.dripAfter(403, answer),
  'no answer': (line) => line.closed,
  'a body shorter than announced': async (line, { mediaType, head }) => {
    await line.send(mediaType, head, { 'content-length': `${head.length + 1_000}` });
    line.socket.end();
  },
  'a gzip bomb': (line, { mediaType, head, unit }) =>
    line.send(mediaType, bombOf(head, unit), { 'content-encoding': 'gzip' }),
  'a page of HTML': (line) => line.send('text/html', html),
  'a refusal without end': (line, answer) => line.fill('chunked', answer, answer.unit, 400),
  'a failure without end': (line, answer) => line.fill('chunked', answer, answer.unit, 502),
  'wrong types': (line, { mediaType, wrong }) => line.send(mediaType, wrong),
  'a broken body': (line, { mediaType, head }) => line.send(mediaType, head),
  'deep nesting': (line, { mediaType, level }) => line.send(mediaType, level.repeat(50_000)),
  'many entries': (line, { mediaType, head, unit, tail, manyBytes }) =>
    line.send(mediaType, head + unit.repeat(Math.floor(manyBytes / unit.length)) + tail),
  'a connection that is reset': async (line, { mediaType, head }) => {
    await line.send(mediaType, head, { 'content-length': '100000' });
    await delay(BYTE_EVERY_MS);
    line.socket.resetAndDestroy();
  },
  'a connection that is reset before the answer': async (line) => {
    line.socket.resetAndDestroy();
  },
  'a redirect in a circle': (line) => line.begin(302, { location: line.url, 'content-length': '0' }),
} satisfies Record<string, Script>;

export type HostileKind = keyof typeof hostileKinds;

/** Those that only a deadline ends. */
export const slowKinds: readonly HostileKind[] = [
  'headers that come byte by byte',
  'a body that comes byte by byte',
  'a refusal that comes byte by byte',
  'no answer',
];

export type HostileServer = Awaited<ReturnType<typeof startHostileServer>>;

/** A server of HTTP that answers in any way but the right one. */
export async function startHostileServer() {
  const sockets = new Set<Socket>();
  const seen = { bytes: 0, requests: 0, underWay: 0 };
  let script: (line: HostileLine, url: URL) => Promise<void> = async () => undefined;

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setMaxListeners(0);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    let received = '';
    let isBusy = false;
    socket.on('data', (bytes) => {
      received = (received + bytes.toString('latin1')).slice(-100_000);
      const path = pathOfWhole(received);
      if (path === null || isBusy) return;
      received = '';
      isBusy = true;
      seen.requests += 1;
      seen.underWay += 1;
      const url = new URL(path, `http://${place}`);
      const line = new HostileLine(socket, url.href, seen);
      script(line, url)
        .catch(() => socket.destroy())
        .finally(() => {
          isBusy = false;
          seen.underWay -= 1;
        });
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  /** Cuts all connections. */
  const drop = () => sockets.forEach((socket) => void socket.destroy());
  return {
    ...{ place, drop },
    /** Bytes that were written since the last `behave`, whether or not they arrived. */
    sentBytes: () => seen.bytes,
    /** Requests since the last `behave`. */
    requests: () => seen.requests,
    /** Answers that are still being written, which most are until the client hangs up. */
    underWay: () => seen.underWay,
    /** From now on everything is answered so, but for what `sound` answers. */
    behave(kind: HostileKind, answer: Answer, sound?: Sound) {
      Object.assign(seen, { bytes: 0, requests: 0 });
      script = async (line, url) => {
        if (sound === undefined || url.href.includes(sound.hostile)) return hostileKinds[kind](line, answer);
        await line.send('application/json', sound.answers[url.pathname] ?? sound.otherwise);
      };
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      drop();
      await closed;
    },
  };
}

const bombOf = (head: string, unit: string) =>
  gzipSync(head + unit.repeat(Math.ceil(unpackedBytes / unit.length)), { level: 1 });
const chunkOf = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

/** Of a request; null until all of it is there. */
function pathOfWhole(received: string): string | null {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return null;
  const length = Number(/^content-length: *(\d+)/im.exec(received.slice(0, end))?.[1] ?? 0);
  const isChunked = /^transfer-encoding: *chunked/im.test(received.slice(0, end));
  if (isChunked ? !received.endsWith('0\r\n\r\n') : received.length < end + 4 + length) return null;
  return received.split(' ', 2)[1] ?? '/';
}

/** One connection, which is written to no faster than it is read. */
class HostileLine {
  readonly socket: Socket;
  readonly url: string;
  readonly closed: Promise<void>;
  readonly #seen: { bytes: number };

  constructor(socket: Socket, url: string, seen: { bytes: number }) {
    this.socket = socket;
    this.url = url;
    this.#seen = seen;
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  async write(text: string | Buffer): Promise<void> {
    if (this.socket.destroyed) return;
    this.#seen.bytes += Buffer.byteLength(text);
    if (this.socket.write(text)) return;
    await Promise.race([once(this.socket, 'drain').catch(() => undefined), this.closed]);
  }

  async begin(status: number, headers: Record<string, string>): Promise<void> {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    await this.write(`HTTP/1.1 ${status} Whatever\r\n${lines.join('')}\r\n`);
  }

  async send(mediaType: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<void> {
    const length = `${Buffer.byteLength(body)}`;
    await this.begin(200, { 'content-type': mediaType, 'content-length': length, ...headers });
    await this.write(body);
  }

  /** Writes the beginning of an answer, and then the unit for ever. */
  async fill(length: string, answer: Answer, unit: string, status = 200): Promise<void> {
    const isChunked = length === 'chunked';
    const body = { ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': length }) };
    await this.begin(status, { 'content-type': answer.mediaType, ...body });
    const framed = (text: string) => (isChunked ? chunkOf(text) : text);
    await this.write(framed(answer.head));
    await this.repeat(unit, framed);
  }

  async repeat(unit: string, framed = (text: string) => text): Promise<void> {
    const piece = framed(unit.repeat(Math.ceil(pieceBytes / unit.length)));
    while (!this.socket.destroyed) await this.write(piece);
  }

  async drip(byte = ' '): Promise<void> {
    while (!this.socket.destroyed) {
      await this.write(byte);
      await delay(BYTE_EVERY_MS);
    }
  }

  async dripAfter(status: number, { mediaType, head }: Answer): Promise<void> {
    await this.begin(status, { 'content-type': mediaType, 'transfer-encoding': 'chunked' });
    await this.write(chunkOf(head));
    await this.drip(chunkOf(' '));
  }
}

/** As a process, whose work and memory are not measured with those of the clients. */
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

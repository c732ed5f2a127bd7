import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

export type FakeClamd = {
  /** host:port */
  address: string;
  /** How many bytes each file had that was looked into. */
  scanned: number[];
  /** What it finds. */
  word: string;
  /** How it names that. */
  signature: string;
  close(): Promise<void>;
};

/**
 * Speaks INSTREAM as clamd does: finds what holds the word, refuses what is longer than its limit before it has all of
 * it, and hangs up after its answer.
 */
export async function startFakeClamd({ word = 'EICAR', limitBytes = 10_000_000 } = {}): Promise<FakeClamd> {
  const server = createServer((socket) => {
    serve(socket, clamd, limitBytes).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clamd: FakeClamd = {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    scanned: [],
    word,
    signature: 'Test.Signature',
    close: async () => {
      server.close();
      await once(server, 'close');
    },
  };
  return clamd;
}

async function serve(socket: Socket, clamd: FakeClamd, limitBytes: number): Promise<void> {
  let received = Buffer.alloc(0);
  const pieces: Buffer[] = [];
  let isOpen = false;
  let length = 0;
  for await (const bytes of socket) {
    received = Buffer.concat([received, bytes]);
    if (!isOpen) {
      const end = received.indexOf(0);
      if (end < 0) continue;
      if (received.toString('latin1', 0, end) !== 'zINSTREAM') return void socket.end('UNKNOWN COMMAND\0');
      received = received.subarray(end + 1);
      isOpen = true;
    }
    while (received.length >= 4 && received.length >= 4 + received.readUInt32BE(0)) {
      const size = received.readUInt32BE(0);
      if (size === 0) {
        clamd.scanned.push(length);
        const isFound = Buffer.concat(pieces).includes(clamd.word);
        return void socket.end(isFound ? `stream: ${clamd.signature} FOUND\0` : 'stream: OK\0');
      }
      pieces.push(received.subarray(4, 4 + size));
      length += size;
      if (length > limitBytes) return void socket.end('INSTREAM size limit exceeded. ERROR\0');
      received = received.subarray(4 + size);
    }
  }
}

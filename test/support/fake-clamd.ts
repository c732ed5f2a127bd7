import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** How many bytes each file had that was looked into, what it finds, and how it names that. */
type Findings = { scanned: number[]; word: string; signature: string };
export type FakeClamd = Awaited<ReturnType<typeof startFakeClamd>>;

/**
 * Speaks INSTREAM as clamd does: finds what holds the word, refuses what is longer than its limit before it has all of
 * it, and hangs up after its answer.
 */
export async function startFakeClamd({ word = 'EICAR', limitBytes = 10_000_000 } = {}) {
  const found: Findings = { scanned: [], word, signature: 'Test.Signature' };
  const server = createServer((socket) => {
    serve(socket, found, limitBytes).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(found, {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      await once(server, 'close');
    },
  });
}

async function serve(socket: Socket, clamd: Findings, limitBytes: number): Promise<void> {
  let received = Buffer.alloc(0);
  for await (const bytes of socket) {
    received = Buffer.concat([received, bytes]);
    const start = received.indexOf(0) + 1;
    if (start === 0) continue;
    if (received.toString('latin1', 0, start - 1) !== 'zINSTREAM') return void socket.end('UNKNOWN COMMAND\0');
    let file = Buffer.alloc(0);
    for (let offset = start; offset + 4 <= received.length; ) {
      const size = received.readUInt32BE(offset);
      if (size === 0) {
        clamd.scanned.push(file.length);
        return void socket.end(file.includes(clamd.word) ? `stream: ${clamd.signature} FOUND\0` : 'stream: OK\0');
      }
      file = Buffer.concat([file, received.subarray(offset + 4, offset + 4 + size)]);
      offset += 4 + size;
    }
    if (file.length > limitBytes) return void socket.end('INSTREAM size limit exceeded. ERROR\0');
  }
}

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { createClamdScanner } from '#src/adapters/malware/clamd.ts';
import { appError } from '#src/errors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { startFakeClamd } from '#test/support/fake-document-services.ts';
import { until } from '#test/support/until.ts';

const never = new AbortController().signal;
const contentOf = (...parts: string[]) => Readable.from(parts.map((part) => Buffer.from(part)));

/** A server that does not close its side, like a clamd that hangs. */
async function hang(onSocket: (socket: Socket) => void) {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined).resume();
    onSocket(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, address: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

describe('the client of clamd', () => {
  it("returns null for a clean file, otherwise the signature's name in printable characters", async () => {
    const clamd = await startFakeClamd();
    const scanner = createClamdScanner(clamd);
    expect(await scanner.scan(contentOf('all ', 'well'), never)).equal(null);
    expect(await scanner.scan(contentOf(), never)).equal(null);
    expect(await scanner.scan(contentOf('has EI', 'CAR'), never)).equal('Test.Signature');
    expect(clamd.scanned).deep.equal([8, 0, 9]);
    clamd.signature = `Win.Test\u0007\u001b[1m\ufffd ${'x'.repeat(300)}`;
    const found = await scanner.scan(contentOf('EICAR'), never);
    expect(found)
      .match(/^Win\.Test\?\?\[1m\? x+$/)
      .and.length(200);
    await clamd.close();
  });

  it("throws too_large for a file above clamd's size limit, and the file's own error if reading it fails", async () => {
    const clamd = await startFakeClamd({ limitBytes: 1_000 });
    const scanner = createClamdScanner(clamd);
    const long = Readable.from(Array.from({ length: 200 }, () => Buffer.alloc(64 * 1024)));
    expect(await appErrorCode(scanner.scan(long, never))).equal('too_large');
    const broken = new Readable({
      read() {
        this.destroy(appError('blob_missing'));
      },
    });
    expect(await appErrorCode(scanner.scan(broken, never))).equal('blob_missing');
    await clamd.close();
  });

  it('throws service_unavailable if clamd is down, silent, or replies without end', async () => {
    const scan = (address: string, timeoutMs = 60_000) =>
      appErrorCode(createClamdScanner({ address, timeoutMs }).scan(contentOf('x'), never));
    expect(await scan('/nowhere/clamd.sock')).equal('service_unavailable');
    const sockets: Socket[] = [];
    const silent = await hang((socket) => sockets.push(socket));
    expect(await scan(silent.address, 100)).equal('service_unavailable');
    silent.server.close();
    for (const socket of sockets) socket.destroy();
    await once(silent.server, 'close');
    expect(await scan(silent.address)).equal('service_unavailable');
    let isClosed = false;
    const endless = await hang((socket) => {
      const write = () => {
        while (socket.writable && socket.write('x'.repeat(64_000)));
      };
      socket.on('drain', write).once('close', () => {
        isClosed = true;
      });
      write();
    });
    expect(await scan(endless.address)).equal('service_unavailable');
    await until('the connection is closed', async () => isClosed);
    endless.server.close();
  });
});

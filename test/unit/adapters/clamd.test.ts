import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { createClamdScanner } from '#src/adapters/malware/clamd.ts';
import { appError } from '#src/errors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { startFakeClamd } from '#test/support/fake-clamd.ts';
import { until } from '#test/support/until.ts';

const never = new AbortController().signal;

describe('clamd', () => {
  it("returns null for a clean file, and the signature's name otherwise", async () => {
    const clamd = await startFakeClamd();
    const scanner = createClamdScanner(clamd);
    expect(await scanner.scan(Readable.from([Buffer.from('all '), Buffer.from('well')]), never)).equal(null);
    expect(await scanner.scan(Readable.from([]), never)).equal(null);
    expect(await scanner.scan(Readable.from([Buffer.from('has EI'), Buffer.from('CAR')]), never)).equal(
      'Test.Signature',
    );
    expect(clamd.scanned).deep.equal([8, 0, 9]);
    await clamd.close();
  });

  it("replaces unprintable characters in a signature's name", async () => {
    const clamd = await startFakeClamd();
    clamd.signature = `Win.Test\u0007\u001b[1m\ufffd ${'x'.repeat(300)}`;
    const found = await createClamdScanner(clamd).scan(Readable.from([Buffer.from('EICAR')]), never);
    expect(found)
      .match(/^Win\.Test\?\?\[1m\? x+$/)
      .and.length(200);
    await clamd.close();
  });

  it("throws too_large above clamd's size limit", async () => {
    const clamd = await startFakeClamd({ limitBytes: 1_000 });
    const content = Readable.from(Array.from({ length: 200 }, () => Buffer.alloc(64 * 1024)));
    expect(await appErrorCode(createClamdScanner(clamd).scan(content, never))).equal('too_large');
    await clamd.close();
  });

  it('throws service_unavailable if clamd is down or silent', async () => {
    // The server does not close its side, like a clamd that hangs.
    const sockets: Socket[] = [];
    const silent = createServer({ allowHalfOpen: true }, (socket) => sockets.push(socket.resume())).listen(
      0,
      '127.0.0.1',
    );
    await once(silent, 'listening');
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const scan = (to: string) =>
      createClamdScanner({ address: to, timeoutMs: 100 }).scan(Readable.from([Buffer.from('x')]), never);
    expect(await appErrorCode(scan(address))).equal('service_unavailable');
    silent.close();
    for (const socket of sockets) socket.destroy();
    await once(silent, 'close');
    expect(await appErrorCode(scan(address))).equal('service_unavailable');
    expect(await appErrorCode(scan('/nowhere/clamd.sock'))).equal('service_unavailable');
  });

  it('closes the connection on an endless reply', async () => {
    let isClosed = false;
    const endless = createServer({ allowHalfOpen: true }, (socket) => {
      const write = () => {
        while (socket.writable && socket.write('x'.repeat(64_000)));
      };
      socket.on('error', () => undefined).on('drain', write);
      socket.resume().once('close', () => {
        isClosed = true;
      });
      write();
    }).listen(0, '127.0.0.1');
    await once(endless, 'listening');
    const address = `127.0.0.1:${(endless.address() as AddressInfo).port}`;
    const scan = createClamdScanner({ address, timeoutMs: 60_000 }).scan(Readable.from([Buffer.from('x')]), never);
    expect(await appErrorCode(scan)).equal('service_unavailable');
    await until('clamd is left', async () => isClosed);
    endless.close();
  });

  it("fails with the error of the file's stream", async () => {
    const clamd = await startFakeClamd();
    const content = new Readable({
      read() {
        this.destroy(appError('blob_missing'));
      },
    });
    expect(await appErrorCode(createClamdScanner(clamd).scan(content, never))).equal('blob_missing');
    await clamd.close();
  });
});

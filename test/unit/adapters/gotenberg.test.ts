import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import type { PdfRenderLimits } from '#src/adapters/pdf-renderer/libreoffice.ts';
import { createGotenbergRenderer } from '#src/adapters/pdf-renderer/pdf-renderer.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-gotenberg.ts';

describe('Gotenberg', () => {
  let server: FakeGotenberg;
  let folder: string;
  before(async () => {
    server = await startFakeGotenberg();
    folder = await mkdtemp(join(tmpdir(), 'gotenberg-'));
    await writeFile(join(folder, 'original'), 'the file');
  });
  after(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });
  afterEach(() => rm(pdfPath(), { force: true }));

  const pdfPath = () => join(folder, 'printed.pdf');
  const render = ({ limits = {}, url = server.url, signal = new AbortController().signal } = {}) =>
    createGotenbergRenderer({ url, limits: limits as Partial<PdfRenderLimits> }).render({
      ...{ path: join(folder, 'original'), format: 'docx', pdfPath: pdfPath(), signal },
    });

  it('renders a file without sending its name', async () => {
    await render({ url: `${server.url}/` });
    expect(await readFile(pdfPath(), 'latin1')).match(/^%PDF-1\.4.*One page\..*%%EOF/s);
    expect(server.files).deep.equal([{ name: 'document.docx', bytes: Buffer.from('the file') }]);
  });

  const refusals = [
    { status: 400, code: 'corrupt_document' },
    { status: 413, code: 'too_large' },
    { status: 429, code: 'service_unavailable' },
    { status: 503, code: 'service_unavailable' },
    { status: 401, code: 'converter_refused' },
  ];
  for (const { status, code } of refusals) {
    it(`${code}: for the status ${status}`, async () => {
      server.answer({ status, text: 'no' });
      expect(await appErrorCode(render())).equal(code);
    });
  }

  it("converter_refused: if the address is not Gotenberg's", async () => {
    expect(await appErrorCode(render({ url: `${server.url}/elsewhere` }))).equal('converter_refused');
  });

  it('service_unavailable: if Gotenberg is down', async () => {
    const gone = await startFakeGotenberg();
    await gone.close();
    expect(await appErrorCode(render({ url: gone.url }))).equal('service_unavailable');
  });

  it('too_large: for a PDF above the limit, which is deleted', async () => {
    server.answer({ pages: ['word '.repeat(1_000)] });
    expect(await appErrorCode(render({ limits: { pdfBytes: 1_000 } }))).equal('too_large');
    expect(existsSync(pdfPath())).equal(false);
  });

  it('conversion_timeout: if Gotenberg does not answer in time', async () => {
    server.answer('hang');
    expect(await appErrorCode(render({ limits: { wallMs: 50 } }))).equal('conversion_timeout');
  });

  it('aborts with the reason of the signal', async () => {
    server.answer('hang');
    const stop = new AbortController();
    const rendering = render({ signal: stop.signal }).catch((error: unknown) => error);
    stop.abort(new Error('stopped'));
    expect(await rendering).property('message', 'stopped');
  });

  it('causes no unhandled rejection when it is aborted during the upload', async () => {
    server.answer('hang');
    const unhandled: unknown[] = [];
    const keep = (reason: unknown) => unhandled.push(reason);
    const others = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection').on('unhandledRejection', keep);
    try {
      for (let turns = 0; turns < 60; turns += 1) {
        const stop = new AbortController();
        const rendering = render({ signal: stop.signal }).catch((error: unknown) => error);
        for (let turn = 0; turn < turns % 30; turn += 1) await nextTurn();
        stop.abort(new Error('stopped'));
        expect(await rendering).property('message', 'stopped');
      }
    } finally {
      process.off('unhandledRejection', keep);
      for (const listener of others) process.on('unhandledRejection', listener);
    }
    expect(unhandled).deep.equal([]);
  });
});

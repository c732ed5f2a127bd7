import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createGotenbergRenderer } from '#src/adapters/pdf-renderer/pdf-renderer.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-document-services.ts';

describe('the client of Gotenberg', () => {
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
    createGotenbergRenderer({ url, limits }).render({
      ...{ path: join(folder, 'original'), format: 'docx', pdfPath: pdfPath(), signal },
    });

  it('renders a file without sending its name', async () => {
    await render({ url: `${server.url}/` });
    expect(await readFile(pdfPath(), 'latin1')).match(/^%PDF-1\.4.*One page\..*%%EOF/s);
    expect(server.files).deep.equal([{ name: 'document.docx', bytes: Buffer.from('the file') }]);
  });

  it('fails with a code that says whether the file, the limits, the settings or the service is to blame', async () => {
    const gone = await startFakeGotenberg();
    await gone.close();
    for (const [answer, options, code] of [
      [{ status: 400, text: 'no' }, {}, 'corrupt_document'],
      [{ status: 413, text: 'no' }, {}, 'too_large'],
      [{ status: 429, text: 'no' }, {}, 'service_unavailable'],
      [{ status: 503, text: 'no' }, {}, 'service_unavailable'],
      [{ status: 401, text: 'no' }, {}, 'converter_refused'],
      ['hang', { url: `${server.url}/elsewhere` }, 'converter_refused'],
      ['hang', { url: gone.url }, 'service_unavailable'],
      ['hang', { limits: { wallMs: 50 } }, 'conversion_timeout'],
      [{ pages: ['word '.repeat(1_000)] }, { limits: { pdfBytes: 1_000 } }, 'too_large'],
    ] as const) {
      server.answer(answer as Parameters<FakeGotenberg['answer']>[0]);
      expect(await appErrorCode(render(options))).equal(code);
      expect(existsSync(pdfPath())).equal(false);
    }
  });

  it('aborts with the reason of the signal', async () => {
    server.answer('hang');
    const stop = new AbortController();
    const rendering = render({ signal: stop.signal }).catch((error: unknown) => error);
    stop.abort(new Error('stopped'));
    expect(await rendering).property('message', 'stopped');
  });
});

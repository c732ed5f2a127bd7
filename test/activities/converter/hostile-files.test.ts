import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/compound-file.ts';
import {
  type ConverterEnvironment,
  createConverterEnvironment,
  needsPdfium,
} from '#test/support/converter-environment.ts';
import {
  docxFile,
  docxParagraph,
  pdfBomb,
  pdfFile,
  pdfPasswordTrailer,
  zipFile,
} from '#test/support/document-fixtures.ts';

const MiB = 1024 ** 2;

describe('rejecting a file', () => {
  let environment: ConverterEnvironment;
  before(async () => {
    environment = await createConverterEnvironment();
  });
  after(() => environment.remove());
  const codeOf = (...file: Parameters<ConverterEnvironment['convert']>) => appErrorCode(environment.convert(...file));

  it('rejects empty files', async () => {
    expect(await codeOf('a.txt', '')).to.equal('empty_document');
    expect(await codeOf('b.txt', ' \n\u200b\n')).to.equal('empty_document');
    expect(await codeOf('c.html', '<html><body><script>x</script></body></html>')).to.equal('empty_document');
    expect(await codeOf('d.docx', docxFile(''))).to.equal('empty_document');
  });

  it('rejects unsupported formats whatever the file name', async () => {
    expect(await codeOf('a.docx', zipFile({ 'a.txt': 'x' }))).to.equal('unsupported_format');
    expect(await codeOf('a.txt', randomBytes(1_024))).to.equal('unsupported_format');
  });

  it('names the unsupported format and lists the supported ones', async () => {
    const files: Record<string, [string, string | Buffer]> = {
      'an old Visio drawing (.vsd)': ['a.doc', compoundFile({ VisioDocument: 'x' })],
      'a Visio drawing (.vsdx)': ['a.docx', zipFile({ 'visio/document.xml': '<visio/>' })],
      'a document of Pages, Numbers or Keynote': ['a.pages', zipFile({ 'Index/Document.iwa': 'x' })],
      'an archive (.zip)': ['a.docx', zipFile({ 'a.txt': 'x' })],
      'a PostScript file': ['a.txt', '%!PS-Adobe-3.0'],
      'a sound recording (.flac)': ['a.docx', Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(100)])],
      'of an unknown kind': ['a.txt', Buffer.alloc(1_024, 1)],
    };
    for (const [kind, [name, content]] of Object.entries(files)) {
      const error = await environment.convert(name, content).catch((reason: unknown) => reason);
      expect(error, kind).property('code', 'unsupported_format');
      expect(error, kind)
        .property('message')
        .match(/can be read: text, Markdown, .*\.docx.* and images\.$/)
        .and.contain(`is ${kind},`);
    }
  });

  it('rejects protected Office files', async () => {
    const office = compoundFile({ EncryptedPackage: Buffer.alloc(2 * MiB), EncryptionInfo: 'x' });
    expect(await codeOf('a.docx', office)).to.equal('encrypted_document');
    expect(await codeOf('a.xlsx', office)).to.equal('encrypted_document');
  });

  it('rejects compound files that are truncated or unknown', async () => {
    const office = compoundFile({ WordDocument: Buffer.alloc(MiB) });
    expect(await codeOf('a.doc', office.subarray(0, 512))).to.equal('corrupt_document');
    expect(await codeOf('a.doc', compoundFile({ Thumbs: 'x' }))).to.equal('unsupported_format');
  });

  it('rejects PDFs that are encrypted, truncated, damaged or without pages', async function () {
    needsPdfium(this);
    const pages = Array.from({ length: 20 }, () => [{ text: 'words', x: 50, y: 700 }]);
    const whole = pdfFile(pages);
    expect(await codeOf('a.pdf', pdfFile(pages, pdfPasswordTrailer))).to.equal('encrypted_document');
    expect(await codeOf('b.pdf', whole.subarray(0, whole.length / 2))).to.equal('corrupt_document');
    expect(await codeOf('c.pdf', '%PDF-1.7\nnothing\n%%EOF\n')).to.equal('corrupt_document');
    expect(await codeOf('d.pdf', pdfFile([]))).to.equal('corrupt_document');
    expect(await codeOf('e.pdf', pdfFile([[]]))).to.equal('empty_document');
    expect(await codeOf('f.pdf', whole, { pdfPages: 19 })).to.equal('too_large');
  });

  it('rejects a truncated PDF, but accepts padding after the end', async function () {
    needsPdfium(this);
    const whole = pdfFile([[{ text: 'words', x: 50, y: 700 }]]);
    const padding = Buffer.alloc(100_000);
    expect(await codeOf('a.pdf', Buffer.concat([whole.subarray(0, whole.length / 2), padding]))).to.equal(
      'corrupt_document',
    );
    const { body } = await environment.convert('b.pdf', Buffer.concat([whole, padding, Buffer.from('\r\n')]));
    expect(body).to.equal('words');
  });

  it('rejects Word files that are truncated or lack their text', async () => {
    const whole = docxFile(docxParagraph('words'));
    expect(await codeOf('a.docx', whole.subarray(0, whole.length / 2))).to.equal('corrupt_document');
    expect(await codeOf('b.docx', docxFile('', { 'word/document.xml': '<w:docu' }))).to.equal('corrupt_document');
  });

  it('rejects zip bombs', async () => {
    const bomb = docxFile('', { 'word/document.xml': Buffer.alloc(20 * MiB, ' ') });
    expect(await codeOf('a.docx', bomb)).to.equal('too_large');
    const parts = Object.fromEntries(Array.from({ length: 1_001 }, (_, index) => [`word/${index}.xml`, '']));
    expect(await codeOf('b.docx', docxFile('', parts))).to.equal('too_large');
    expect(
      await codeOf('c.docx', docxFile(docxParagraph('x'), { a: randomBytes(2_000) }), { zipInflatedBytes: 1_000 }),
    ).to.equal('too_large');
  });

  it('rejects PDF decompression bombs', async function () {
    needsPdfium(this);
    expect(await codeOf('a.pdf', pdfBomb(256 * MiB), { processMemoryBytes: 100 * MiB })).to.equal('too_large');
    const lines = Array.from({ length: 20_100 }, (_, line) => ({
      text: 'ab',
      x: 50,
      y: 750 - (line % 60) * 12 + line / 1_000,
    }));
    expect(await codeOf('b.pdf', pdfFile([lines]))).to.equal('too_large');
  });

  it('does not open nested archives', async () => {
    const inner = zipFile({ bomb: Buffer.alloc(20 * MiB) });
    const { body } = await environment.convert('a.docx', docxFile(docxParagraph('words'), { 'word/inner.zip': inner }));
    expect(body).to.equal('words');
  });

  it('rejects XML entity bombs', async () => {
    const levels = Array.from({ length: 9 }, (_, index) => `<!ENTITY l${index + 1} "${`&l${index};`.repeat(10)}">`);
    const laughs = `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "ha">${levels.join('')}]><l>&l9;</l>`;
    expect(await codeOf('a.docx', docxFile('', { 'word/document.xml': laughs }))).to.equal('corrupt_document');
    // Plain XML is read as text, so entities are not expanded.
    expect((await environment.convert('a.xml', laughs)).body).to.contain('&l9;');
  });

  it('rejects a million nested elements or arrays', async () => {
    const deep = `<html><body>${'<div>'.repeat(1_000_000)}words`;
    expect(await codeOf('a.html', deep)).to.equal('corrupt_document');
    const arrays = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`;
    expect(await codeOf('a.json', arrays)).to.be.oneOf(['corrupt_document', 'too_large']);
  });

  it('rejects too much text, a very long line and an oversized file', async () => {
    expect(await codeOf('a.txt', 'words '.repeat(1_000), { bodyLength: 1_000 })).to.equal('too_large');
    expect(await codeOf('b.txt', 'x'.repeat(50 * MiB))).to.equal('too_large');
    expect(await codeOf('c.csv', 'a,b\n1,2', { sourceBytes: 3 })).to.equal('too_large');
  });

  it('rejects files that need too much time, memory or output', async () => {
    const page = '<html><body><p>words</p>';
    // The parser works for seconds, so that it cannot finish before a late timer fires.
    expect(await codeOf('a.html', page.repeat(50_000), { wallMs: 20 })).to.equal('conversion_timeout');
    expect(await codeOf('b.html', page.repeat(100_000), { processMemoryBytes: 20 * MiB })).to.equal('too_large');
    expect(await codeOf('c.csv', 'a,b,c,d\n'.repeat(1_000_000), { heapMiB: 32 })).to.equal('too_large');
    expect(await codeOf('d.html', page, { outputBytes: 20 })).to.equal('too_large');
  });

  it('stops when the signal aborts', async () => {
    const path = await environment.write('a.html', `<html><body>${'<p>words</p>'.repeat(50_000)}`);
    const stop = new AbortController();
    const reason = new Error('a newer upload');
    const source = { path, fileName: 'a.html', format: 'html', signal: stop.signal } as const;
    const work = environment.converter.convert({ ...source, orgId: 'any', onProgress: () => stop.abort(reason) });
    expect(await work.catch((error: unknown) => error)).to.equal(reason);
  });
});

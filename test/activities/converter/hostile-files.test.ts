import { expect } from 'chai';
import type { ConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { needsPdfium, useConverter } from '#test/support/converter-environment.ts';
import * as fixtures from '#test/support/document-fixtures.ts';
import { compoundFile } from '#test/support/document-fixtures.ts';

const { docxFile, docxParagraph, pdfBomb, pdfFile, pdfPasswordTrailer, zipFile } = fixtures;
const MiB = 1024 ** 2;
const wordFile = docxFile(docxParagraph('words'));
const documentPart = (content: string | Buffer) => docxFile('', { 'word/document.xml': content });
const pages = Array.from({ length: 20 }, () => [{ text: 'words', x: 50, y: 700 }]);
const pdf = pdfFile(pages);
/** A PDF whose list of pages names an object so often: 2 is the list itself, 5 the only page. */
const pdfOfPages = (count: number, object: number) => () =>
  pdfFile(pages.slice(0, 1))
    .toString('latin1')
    .replace('/Count 1 /Kids [5 0 R]', `/Count ${count} /Kids [${`${object} 0 R `.repeat(count)}]`);
const half = (file: Buffer) => file.subarray(0, file.length / 2);
const html = '<html><body><p>words</p>';
const webPageOf = (paragraphs: number) => () => html.repeat(paragraphs);
const entities = Array.from({ length: 9 }, (_, n) => `<!ENTITY l${n + 1} "${`&l${n};`.repeat(10)}">`);
const laughs = `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "ha">${entities.join('')}]><l>&l9;</l>`;
const oldWordFile = compoundFile({ WordDocument: Buffer.alloc(MiB) });
const protectedParts = { EncryptedPackage: Buffer.alloc(2 * MiB), EncryptionInfo: 'x' };
const manyLines = () =>
  Array.from({ length: 20_100 }, (_, line) => ({ text: 'ab', x: 50, y: 750 - (line % 60) * 12 + line / 1_000 }));

type Limits = Partial<ConversionProcessLimits>;
type HostileFile = [title: string, name: string, content: () => string | Buffer, code: string, limits?: Limits];

const hostile: HostileFile[] = [
  ['a web page without text', 'c.html', () => '<html><body><script>x</script></body></html>', 'empty_document'],
  ['a Word file without text', 'd.docx', () => docxFile(''), 'empty_document'],
  ['half a Word file', 'a.docx', () => half(wordFile), 'corrupt_document'],
  ['a Word file with broken XML', 'b.docx', () => documentPart('<w:docu'), 'corrupt_document'],
  ['a truncated old Word file', 'a.doc', () => oldWordFile.subarray(0, 512), 'corrupt_document'],
  ['a zip bomb', 'a.docx', () => documentPart(Buffer.alloc(20 * MiB, ' ')), 'too_large'],
  ['a zip that unpacks to too many bytes', 'c.docx', () => wordFile, 'too_large', { zipInflatedBytes: 1_000 }],
  ['an XML entity bomb', 'a.docx', () => documentPart(laughs), 'corrupt_document'],
  ['a million nested elements', 'a.html', () => `${html}${'<div>'.repeat(1_000_000)}`, 'corrupt_document'],
  ['a text that is too long', 'a.txt', () => 'words '.repeat(1_000), 'too_large', { bodyLength: 1_000 }],
  ['a very long line', 'b.txt', () => 'x'.repeat(50 * MiB), 'too_large'],
  ['an oversized file', 'c.csv', () => 'a,b\n1,2', 'too_large', { sourceBytes: 3 }],
  // The parser works for seconds, so that it cannot finish before a late timer fires.
  ['a file that takes too long', 'a.html', webPageOf(50_000), 'conversion_timeout', { wallMs: 20 }],
  ['a file above the memory limit', 'b.html', webPageOf(100_000), 'too_large', { processMemoryBytes: 20 * MiB }],
  ['a file that needs too large a heap', 'c.csv', () => 'a,b,c,d\n'.repeat(1_000_000), 'too_large', { heapMiB: 32 }],
  ['a file whose text is too large', 'd.html', () => html, 'too_large', { outputBytes: 20 }],
  ['a PDF with a password', 'a.pdf', () => pdfFile(pages, pdfPasswordTrailer), 'encrypted_document'],
  ['half a PDF', 'b.pdf', () => half(pdf), 'corrupt_document'],
  ['half a PDF and zeros', 'b.pdf', () => Buffer.concat([half(pdf), Buffer.alloc(100_000)]), 'corrupt_document'],
  ['a PDF with a header and no objects', 'c.pdf', () => '%PDF-1.7\nnothing\n%%EOF\n', 'corrupt_document'],
  ['a PDF without pages', 'd.pdf', () => pdfFile([]), 'corrupt_document'],
  ['a PDF with an empty page', 'e.pdf', () => pdfFile([[]]), 'empty_document'],
  ['a PDF of too many pages', 'f.pdf', () => pdf, 'too_large', { pdfPages: 19 }],
  ['a PDF that refers to one page too often', 'g.pdf', pdfOfPages(100_000, 5), 'too_large'],
  ['a PDF whose page tree has a cycle', 'h.pdf', pdfOfPages(1_000, 2), 'corrupt_document'],
  ['a PDF decompression bomb', 'i.pdf', () => pdfBomb(256 * MiB), 'too_large', { processMemoryBytes: 100 * MiB }],
  ['a PDF page of too many lines', 'j.pdf', () => pdfFile([manyLines()]), 'too_large'],
];

describe('the converter', () => {
  const converter = useConverter();

  for (const [title, name, content, code, limits] of hostile) {
    it(`rejects ${title} with the error ${code}`, async function () {
      if (name.endsWith('.pdf')) needsPdfium(this);
      expect(await appErrorCode(converter.convert(name, content(), limits))).equal(code);
    });
  }

  it('names the unsupported format in the error, whatever the file name, and says what can be uploaded instead', async () => {
    const readable = /(?:can be read: text, Markdown, .*\.docx.* images, and archives .*\)|, and upload that)\.$/;
    const files: Record<string, [string, string | Buffer]> = {
      'an old Visio drawing (.vsd)': ['a.doc', compoundFile({ VisioDocument: 'x' })],
      'a Visio drawing (.vsdx)': ['a.docx', zipFile({ 'visio/document.xml': '<visio/>' })],
      'a document of Pages, Numbers or Keynote': ['a.pages', zipFile({ 'Index/Document.iwa': 'x' })],
      'a PostScript file': ['a.txt', '%!PS-Adobe-3.0'],
      'a sound recording (.flac)': ['a.docx', Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(100)])],
      'of an unknown kind': ['a.txt', Buffer.alloc(1_024, 1)],
    };
    for (const [kind, file] of Object.entries(files)) {
      const error = await converter.convert(...file).catch((reason: unknown) => reason);
      expect(error, kind).property('code', 'unsupported_format');
      expect(error, kind).property('message').match(readable).and.contain(`is ${kind},`);
    }
  });

  it('says in the error why an empty, protected or old file cannot be read, and what to do', async () => {
    const mail = 'From: a@example.org\nMIME-Version: 1.0\nContent-Type: multipart/encrypted; boundary=x\n\n--x--\n';
    for (const [name, content, code, advice] of [
      ['a.txt', '', 'empty_document', /The file has no content/],
      ['b.txt', ' \n\u200b\n', 'empty_document', /The file holds no text/],
      ['a.eml', mail, 'encrypted_document', /upload its text/],
      ['a.docx', compoundFile(protectedParts), 'encrypted_document', /without the protection/],
      ['a.ppt', compoundFile({ 'PowerPoint Document': 'x' }), 'converter_unavailable', /as \.pptx, or .* LibreOffice/],
    ] as const) {
      const error = await converter.convert(name, content).catch((reason: unknown) => reason);
      expect(error, name).include({ code }).property('message').match(advice);
    }
  });

  it('reads harmless files that look hostile: nested archives, entities in plain XML, padding after a PDF', async function () {
    const inner = zipFile({ bomb: Buffer.alloc(20 * MiB) });
    const outer = docxFile(docxParagraph('words'), { 'word/inner.zip': inner });
    expect((await converter.convert('a.docx', outer)).body).equal('words');
    expect((await converter.convert('a.xml', laughs)).body).contain('&l9;');
    needsPdfium(this);
    const padded = Buffer.concat([pdfFile(pages.slice(0, 1)), Buffer.alloc(100_000), Buffer.from('\r\n')]);
    expect((await converter.convert('b.pdf', padded)).body).equal('words');
  });

  it('stops when its caller aborts', async () => {
    const path = await converter.write('a.html', `<html><body>${'<p>words</p>'.repeat(50_000)}`);
    const stop = new AbortController();
    const reason = new Error('a newer upload');
    const source = { path, fileName: 'a.html', format: 'html', signal: stop.signal } as const;
    const work = converter.converter.convert({ ...source, orgId: 'any', onProgress: () => stop.abort(reason) });
    expect(await work.catch((error: unknown) => error)).equal(reason);
  });
});

import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createLibreOfficeRenderer, findLibreOffice } from '#src/adapters/pdf-renderer/libreoffice.ts';
import type { OfficeFormat } from '#src/domain/documents/formats.ts';
import { alignPages } from '#src/domain/documents/pages.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { docxFile, docxParagraph, zipFile } from '#test/support/document-fixtures.ts';
import { pngFile } from '#test/support/picture-fixtures.ts';
import { testServices } from '#test/support/services.ts';
import { skip } from '#test/support/skip.ts';

const { signal } = new AbortController();

describe('LibreOffice', function () {
  this.timeout(60_000);
  let folder: string;
  let program: string;
  before(async function () {
    const found = findLibreOffice();
    if (found === null) return skip(this, 'no LibreOffice');
    program = found;
    folder = await mkdtemp(join(tmpdir(), 'libreoffice-'));
  });
  after(() => folder && rm(folder, { recursive: true }));

  async function printTo(
    format: OfficeFormat,
    content: Buffer,
    sandbox = createParserSandbox('auto'),
  ): Promise<string> {
    const [path, pdfPath] = [join(folder, `a.${format}`), join(folder, `${Math.random()}.pdf`)];
    await writeFile(path, content);
    await createLibreOfficeRenderer({ path: program, tempDir: folder, sandbox }).render({
      path,
      format,
      pdfPath,
      signal,
    });
    return pdfPath;
  }

  /** @returns the text of each page */
  async function print(format: OfficeFormat, content: Buffer): Promise<string[]> {
    const pdfPath = await printTo(format, content);
    return createConverter({
      sandbox: createParserSandbox('auto'),
      toolsDir: testServices().toolsDir,
      tempDir: folder,
    }).readPages({ orgId: 'any', path: pdfPath, signal });
  }

  it('prints a Word file, whose pages are found in its text', async () => {
    const sentences = Array.from({ length: 90 }, (_, index) => `Clause ${index + 1} of the contract is told here.`);
    const pages = await print('docx', docxFile(sentences.map((text) => docxParagraph(text)).join(''), wordTypes));
    expect(pages).length.within(2, 4);
    const body = sentences.join('\n\n');
    for (const [index, start] of alignPages(body, pages).entries()) {
      expect(pages[index]?.startsWith(body.slice(start, start + 20)), `page ${index + 1}`).equal(true);
    }
  });

  it('follows no link of a file, to the web or to the disk', async () => {
    const asked: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url);
      response.end('REMOTE');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    await writeFile(join(folder, 'secret.txt'), 'LOCAL');
    const site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const pages = await print('odt', linkingFile([`${site}/a.txt`, `file://${folder}/secret.txt`], `${site}/b.png`));
    server.close();
    expect(asked).deep.equal([]);
    expect(pages.join())
      .contain('Its own words')
      .and.not.match(/REMOTE|LOCAL/);
  });

  it('prints no picture from the disk, in the sandbox', async function () {
    if (createParserSandbox('auto').missing !== null) skip(this, 'no Landlock');
    const originals = join(folder, 'originals');
    await mkdir(originals);
    const grey = Buffer.from(Array.from({ length: 64 * 64 }, (_, index) => index % 251));
    await writeFile(join(originals, 'picture'), pngFile({ width: 64, height: 64, grey }));
    const address = `file://${originals}/picture`;
    const drawing = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="64" height="64"><image xlink:href="${address}" width="64" height="64"/></svg>`;
    const drawn: [OfficeFormat, Buffer] = ['odt', linkingFile([], 'Pictures/a.svg', { 'Pictures/a.svg': drawing })];
    const linked: [OfficeFormat, Buffer] = [
      'rtf',
      Buffer.from(`{\\rtf1 {\\field{\\*\\fldinst INCLUDEPICTURE "${address}" \\\\d}{\\fldrslt }} words}`),
    ];
    const hasPicture = async (pdfPath: string) => (await readFile(pdfPath, 'latin1')).includes('/Subtype/Image');
    expect(await hasPicture(await printTo(...drawn, createParserSandbox('off'))), 'without the sandbox').equal(true);
    for (const [format, content] of [drawn, linked]) {
      expect(await hasPicture(await printTo(format, content)), format).equal(false);
    }
  });

  it('corrupt_document: for what it cannot open', async () => {
    const broken = docxFile('', { 'word/document.xml': '<w:docu' });
    expect(await appErrorCode(print('docx', broken))).equal('corrupt_document');
  });
});

/** Nothing else tells it that this is a Word file. */
const wordTypes = {
  '[Content_Types].xml':
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">' +
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    '<Default Extension="xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>' +
    '</Types>',
};

/** A text document with sections and a picture that are somewhere else. */
function linkingFile(sections: string[], picture: string, parts: Record<string, string> = {}): Buffer {
  const namespace = (prefix: string, name: string) =>
    `xmlns:${prefix}="urn:oasis:names:tc:opendocument:xmlns:${name}:1.0"`;
  const mediaType = 'application/vnd.oasis.opendocument.text';
  const link = (address: string) => `xlink:href="${address}" xlink:type="simple"`;
  const linked = sections.map(
    (address, index) =>
      `<text:section text:name="s${index}"><text:section-source ${link(address)}/><text:p>old</text:p></text:section>`,
  );
  const entries = Object.keys(parts).map(
    (name) => `<manifest:file-entry manifest:full-path="${name}" manifest:media-type="image/svg+xml"/>`,
  );
  const image = `<draw:frame svg:width="5cm" svg:height="5cm"><draw:image ${link(picture)} xlink:show="embed" xlink:actuate="onLoad"/></draw:frame>`;
  const namespaces = [
    namespace('office', 'office'),
    namespace('text', 'text'),
    namespace('draw', 'drawing'),
    namespace('svg', 'svg-compatible'),
    'xmlns:xlink="http://www.w3.org/1999/xlink"',
  ].join(' ');
  return zipFile({
    mimetype: mediaType,
    'META-INF/manifest.xml': `<manifest:manifest ${namespace('manifest', 'manifest')}><manifest:file-entry manifest:full-path="/" manifest:media-type="${mediaType}"/><manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>${entries.join('')}</manifest:manifest>`,
    'content.xml': `<office:document-content ${namespaces} office:version="1.2"><office:body><office:text><text:p>Its own words</text:p>${linked.join('')}<text:p>${image}</text:p></office:text></office:body></office:document-content>`,
    ...parts,
  });
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createLibreOfficeRenderer, findLibreOffice } from '#src/adapters/pdf-renderer/libreoffice.ts';
import type { OfficeFormat } from '#src/domain/documents/formats.ts';
import { alignPages } from '#src/domain/documents/pages.ts';
import { docxFile, docxParagraph, zipFile } from '#test/support/document-fixtures.ts';
import { serveLocally } from '#test/support/local-server.ts';
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

  /** @returns the text of each page */
  async function print(format: OfficeFormat, content: Buffer): Promise<string[]> {
    const [path, pdfPath] = [join(folder, `a.${format}`), join(folder, `${Math.random()}.pdf`)];
    await writeFile(path, content);
    const parts = { tempDir: folder, sandbox: createParserSandbox('auto') };
    await createLibreOfficeRenderer({ path: program, ...parts }).render({ path, format, pdfPath, signal });
    const converter = createConverter({ ...parts, toolsDir: testServices().toolsDir });
    return converter.readPages({ orgId: 'any', path: pdfPath, signal });
  }

  it('makes a PDF of a Word file, whose pages are then found in the text of the document', async () => {
    const sentences = Array.from({ length: 90 }, (_, index) => `Clause ${index + 1} of the contract is told here.`);
    const pages = await print('docx', docxFile(sentences.map((text) => docxParagraph(text)).join(''), wordTypes));
    expect(pages).length.within(2, 4);
    const body = sentences.join('\n\n');
    for (const [index, start] of alignPages(body, pages).entries()) {
      expect(pages[index]?.startsWith(body.slice(start, start + 20)), `page ${index + 1}`).equal(true);
    }
  });

  it('follows no link in a file, neither to the web nor to the disk', async () => {
    const asked: (string | undefined)[] = [];
    const { baseUrl, close } = await serveLocally((request, response) => {
      asked.push(request.url);
      response.end('REMOTE');
    });
    await writeFile(join(folder, 'secret.txt'), 'LOCAL');
    const sections = [`${baseUrl}/a.txt`, `file://${folder}/secret.txt`];
    const pages = await print('odt', linkingFile(sections, `${baseUrl}/b.png`)).finally(close);
    expect(asked).deep.equal([]);
    expect(pages.join())
      .contain('Its own words')
      .and.not.match(/REMOTE|LOCAL/);
  });
});

/** LibreOffice recognizes a Word file only by these. */
const wordTypes = {
  '[Content_Types].xml':
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">' +
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    '<Default Extension="xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>' +
    '</Types>',
};

/** A text document that links to sections and a picture elsewhere. */
function linkingFile(sections: string[], picture: string): Buffer {
  const named = (prefix: string, name: string) => `xmlns:${prefix}="urn:oasis:names:tc:opendocument:xmlns:${name}:1.0"`;
  const mediaType = 'application/vnd.oasis.opendocument.text';
  const link = (address: string) => `xlink:href="${address}" xlink:type="simple"`;
  const entry = (path: string, type: string) =>
    `<manifest:file-entry manifest:full-path="${path}" manifest:media-type="${type}"/>`;
  const linked = sections.map(
    (address, index) =>
      `<text:section text:name="s${index}"><text:section-source ${link(address)}/><text:p>old</text:p></text:section>`,
  );
  const image = `<draw:image ${link(picture)} xlink:show="embed" xlink:actuate="onLoad"/>`;
  const frame = `<text:p><draw:frame svg:width="5cm" svg:height="5cm">${image}</draw:frame></text:p>`;
  const names = [named('office', 'office'), named('text', 'text'), named('draw', 'drawing')];
  names.push(named('svg', 'svg-compatible'), 'xmlns:xlink="http://www.w3.org/1999/xlink"');
  const body = `<office:text><text:p>Its own words</text:p>${linked.join('')}${frame}</office:text>`;
  const manifest = entry('/', mediaType) + entry('content.xml', 'text/xml');
  return zipFile({
    mimetype: mediaType,
    'META-INF/manifest.xml': `<manifest:manifest ${named('manifest', 'manifest')}>${manifest}</manifest:manifest>`,
    'content.xml': `<office:document-content ${names.join(' ')} office:version="1.2"><office:body>${body}</office:body></office:document-content>`,
  });
}

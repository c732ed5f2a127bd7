import { deflateSync } from 'node:zlib';
import { CFB } from '@e965/xlsx';

type Parts = Record<string, string | Buffer>;

function archive(parts: Parts, options: object): Buffer {
  const container = CFB.utils.cfb_new();
  for (const [path, content] of Object.entries(parts)) {
    // An empty part would be left out.
    CFB.utils.cfb_add(container, `/${path}`, Buffer.from(content.length === 0 ? ' ' : content));
  }
  return Buffer.from(CFB.write(container, { type: 'buffer', ...options }));
}

/** A compound file, as old Office programs and Outlook write it, with these streams; a `/` in a name makes a storage. */
export const compoundFile = (streams: Parts): Buffer => archive(streams, {});

export const zipFile = (entries: Parts): Buffer => archive(entries, { fileType: 'zip', compression: true });

/** A Word file around the XML of its body; other parts can be added or replaced. */
export function docxFile(body: string, parts: Parts = {}): Buffer {
  const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main';
  const style = (id: string, name: string) =>
    `<w:style w:type="paragraph" w:styleId="${id}"><w:name w:val="${name}"/></w:style>`;
  return zipFile({
    '[Content_Types].xml': `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'word/document.xml'] }),
    'word/_rels/document.xml.rels': relationshipsPart({ r2: ['styles', 'styles.xml'] }),
    'word/styles.xml': `<w:styles xmlns:w="${word}">${style('H1', 'heading 1')}${style('berschrift2', 'Überschrift 2')}</w:styles>`,
    'word/document.xml': `<w:document xmlns:w="${word}"><w:body>${body}</w:body></w:document>`,
    ...parts,
  });
}

export function docxParagraph(text: string, styleId?: string): string {
  const style = styleId ? `<w:pPr><w:pStyle w:val="${styleId}"/></w:pPr>` : '';
  return `<w:p>${style}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
}

const office = 'http://schemas.openxmlformats.org/officeDocument/2006';
const drawing = 'http://schemas.openxmlformats.org/drawingml/2006';

/** For the root of a part of an Office package. */
export const officeNames = [
  `xmlns:r="${office}/relationships"`,
  `xmlns:m="${office}/math"`,
  `xmlns:a="${drawing}/main"`,
  `xmlns:c="${drawing}/chart"`,
  `xmlns:dgm="${drawing}/diagram"`,
  `xmlns:wp="${drawing}/wordprocessingDrawing"`,
  'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"',
  'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"',
  'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"',
].join(' ');

/** A part that says which others it uses: `{ r1: ['slide', 'slides/slide1.xml'] }`. */
export function relationshipsPart(targets: Record<string, [type: string, target: string]>): string {
  const items = Object.entries(targets).map(([id, [type, target]]) => {
    const mode = target.startsWith('http') ? ' TargetMode="External"' : '';
    return `<Relationship Id="${id}" Type="${office}/relationships/${type}" Target="${target}"${mode}/>`;
  });
  return `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${items.join('')}</Relationships>`;
}

/** A workbook around the XML of its only sheet, named One, with a drawing of these shapes. */
export function xlsxFile(sheet: string, shapes = ''): Buffer {
  const main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
  return zipFile({
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    '[Content_Types].xml':
      '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    'xl/workbook.xml': `<workbook ${main} ${officeNames}><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relationshipsPart({ r1: ['worksheet', 'worksheets/sheet1.xml'] }),
    'xl/worksheets/sheet1.xml': `<worksheet ${main}>${sheet}</worksheet>`,
    'xl/worksheets/_rels/sheet1.xml.rels': relationshipsPart({ r1: ['drawing', '../drawings/drawing1.xml'] }),
    'xl/drawings/drawing1.xml': `<xdr:wsDr xmlns:xdr="${drawing}/spreadsheetDrawing" ${officeNames}>${shapes}</xdr:wsDr>`,
  });
}

const odf = 'urn:oasis:names:tc:opendocument:xmlns';
const odfNames = [
  ...['office', 'style', 'text', 'table', 'meta', 'presentation', 'manifest'].map(
    (name) => `xmlns:${name}="${odf}:${name}:1.0"`,
  ),
  `xmlns:draw="${odf}:drawing:1.0"`,
  `xmlns:svg="${odf}:svg-compatible:1.0"`,
  'xmlns:xlink="http://www.w3.org/1999/xlink"',
  'xmlns:dc="http://purl.org/dc/elements/1.1/"',
].join(' ');

/** An OpenDocument file of a kind around the XML of its body; `styles` are those of the text itself. */
export function odfFile(
  kind: 'text' | 'presentation' | 'spreadsheet',
  body: string,
  more: { styles?: string; title?: string; parts?: Parts } = {},
): Buffer {
  const root = (name: string, content: string) => `<office:${name} ${odfNames}>${content}</office:${name}>`;
  return zipFile({
    mimetype: `application/vnd.oasis.opendocument.${kind}`,
    'content.xml': root(
      'document-content',
      `<office:automatic-styles>${more.styles ?? ''}</office:automatic-styles><office:body><office:${kind}>${body}</office:${kind}></office:body>`,
    ),
    'META-INF/manifest.xml': odfManifest(''),
    'styles.xml': root('document-styles', ''),
    'meta.xml': root('document-meta', `<office:meta><dc:title>${more.title ?? ''}</dc:title></office:meta>`),
    ...more.parts,
  });
}

function odfManifest(encryption: string): string {
  return `<manifest:manifest ${odfNames}><manifest:file-entry manifest:full-path="content.xml">${encryption}</manifest:file-entry></manifest:manifest>`;
}

export const odfEncryptedManifest = odfManifest('<manifest:encryption-data/>');

export type PdfText = { text: string; x: number; y: number; size?: number; font?: 'regular' | 'bold' };

/** Grey values from the upper left corner, row by row. */
export type Picture = { width: number; height: number; grey: Buffer };

/** A PDF with these texts or pictures on its pages; `trailer` is added to the trailer's dictionary. */
export function pdfFile(pages: (PdfText | Picture)[][], trailer = ''): Buffer {
  const draw = (each: PdfText | Picture) => ('grey' in each ? drawPicture(each) : drawText(each));
  const contents = pages.map((texts) => texts.map(draw).join('\n'));
  return pdfOfContents(contents, { trailer });
}

/** A small PDF whose one page inflates to this many bytes. */
export function pdfBomb(inflatedBytes: number): Buffer {
  const content = deflateSync(Buffer.alloc(inflatedBytes, ' ')).toString('latin1');
  return pdfOfContents([content], { filter: '/Filter /FlateDecode' });
}

/** A PDF of pages with these contents, without a list of its objects, which readers do not need. */
function pdfOfContents(contents: string[], { filter = '', trailer = '' }): Buffer {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${contents.length} /Kids [${contents.map((_, index) => `${5 + index * 2} 0 R`).join(' ')}] >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>',
    ...contents.flatMap((content, index) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents ${6 + index * 2} 0 R /Resources << /Font << /regular 3 0 R /bold 4 0 R >> >> >>`,
      `<< /Length ${content.length} ${filter} >>\nstream\n${content}\nendstream`,
    ]),
  ];
  const numbered = objects.map((object, index) => `${index + 1} 0 obj\n${object}\nendobj\n`).join('');
  const end = `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${trailer} >>\n%%EOF\n`;
  return Buffer.from(`%PDF-1.4\n${numbered}${end}`, 'latin1');
}

function drawText({ text, x, y, size = 10, font = 'regular' }: PdfText): string {
  const escaped = text.replace(/[\\()]/g, '\\$&');
  return `BT /${font} ${size} Tf ${x} ${y} Td (${escaped}) Tj ET`;
}

/** As wide as the page, from its upper edge downwards. */
function drawPicture({ width, height, grey }: Picture): string {
  const shown = (600 * height) / width;
  const pixels = deflateSync(grey).toString('latin1');
  return `q 600 0 0 ${shown} 0 ${800 - shown} cm BI /W ${width} /H ${height} /BPC 8 /CS /G /F /Fl ID ${pixels}\nEI Q`;
}

export const pdfPasswordTrailer = `/ID [<${'00'.repeat(16)}><${'00'.repeat(16)}>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <${'11'.repeat(32)}> /U <${'22'.repeat(32)}> >>`;

export const textLines = (...lines: string[]): PdfText[] =>
  lines.map((text, index) => ({ text, x: 50, y: 750 - index * 20, size: 12 }));

export const pdfOfLines = (...lines: string[]): Buffer => pdfFile([textLines(...lines)]);

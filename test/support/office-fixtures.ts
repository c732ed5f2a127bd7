import { zipFile } from './document-fixtures.ts';

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

/** A workbook around the XML of its only sheet, named One. */
export function xlsxFile(sheet: string): Buffer {
  const main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
  return zipFile({
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    '[Content_Types].xml':
      '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    'xl/workbook.xml': `<workbook ${main} ${officeNames}><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relationshipsPart({ r1: ['worksheet', 'worksheets/sheet1.xml'] }),
    'xl/worksheets/sheet1.xml': `<worksheet ${main}>${sheet}</worksheet>`,
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
  more: { styles?: string; title?: string; parts?: Record<string, string | Buffer> } = {},
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

/** A manifest that names an entry of an OpenDocument file as encrypted. */
export const odfEncryptedManifest = odfManifest('<manifest:encryption-data/>');

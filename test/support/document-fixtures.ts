import { crc32, deflateRawSync, deflateSync } from 'node:zlib';

/** A ZIP archive with these entries, deflated. */
export function zipFile(entries: Record<string, string | Buffer>): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(entries)) {
    const bytes = Buffer.from(content);
    const packed = deflateRawSync(bytes);
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(8, 4);
    fields.writeUInt32LE(crc32(bytes), 10);
    fields.writeUInt32LE(packed.length, 14);
    fields.writeUInt32LE(bytes.length, 18);
    fields.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), fields, Buffer.from(name), packed]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00'), fields, rest, Buffer.from(name));
    locals.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(locals.length, 4);
  end.writeUInt16LE(locals.length, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...locals, central, Buffer.from('PK\x05\x06'), end]);
}

/** A Word file around the XML of its body; other parts can be added or replaced. */
export function docxFile(body: string, parts: Record<string, string | Buffer> = {}): Buffer {
  const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main';
  const package_ = 'http://schemas.openxmlformats.org/package/2006';
  const style = (id: string, name: string) =>
    `<w:style w:type="paragraph" w:styleId="${id}"><w:name w:val="${name}"/></w:style>`;
  return zipFile({
    '[Content_Types].xml': `<Types xmlns="${package_}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
    '_rels/.rels': `<Relationships xmlns="${package_}/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
    'word/_rels/document.xml.rels': `<Relationships xmlns="${package_}/relationships"><Relationship Id="r2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`,
    'word/styles.xml': `<w:styles xmlns:w="${word}">${style('H1', 'heading 1')}${style('berschrift2', 'Überschrift 2')}</w:styles>`,
    'word/document.xml': `<w:document xmlns:w="${word}"><w:body>${body}</w:body></w:document>`,
    ...parts,
  });
}

export function docxParagraph(text: string, styleId?: string): string {
  const style = styleId ? `<w:pPr><w:pStyle w:val="${styleId}"/></w:pPr>` : '';
  return `<w:p>${style}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
}

export type PdfText = { text: string; x: number; y: number; size?: number; font?: 'regular' | 'bold' };

/** Grey values from the upper left corner, row by row. */
export type Picture = { width: number; height: number; grey: Buffer };

/** A PDF with these texts or pictures on its pages, written plainly; `trailer` is added to the trailer's dictionary. */
export function pdfFile(pages: (PdfText | Picture)[][], trailer = ''): Buffer {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${pages.length} /Kids [${pages.map((_, index) => `${5 + index * 2} 0 R`).join(' ')}] >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>',
  ];
  pages.forEach((texts, index) => {
    const content = texts.map((each) => ('grey' in each ? drawPicture(each) : drawText(each))).join('\n');
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents ${6 + index * 2} 0 R /Resources << /Font << /regular 3 0 R /bold 4 0 R >> >> >>`,
      `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    );
  });
  let file = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(offset).padStart(10, '0')} 00000 n \n`;
  });
  const start = file.length;
  const count = objects.length + 1;
  file += `xref\n0 ${count}\n0000000000 65535 f \n${offsets.join('')}`;
  return Buffer.from(
    `${file}trailer\n<< /Size ${count} /Root 1 0 R ${trailer} >>\nstartxref\n${start}\n%%EOF\n`,
    'latin1',
  );
}

function drawText({ text, x, y, size = 10, font = 'regular' }: PdfText): string {
  const escaped = text.replace(/[\\()]/g, '\\$&');
  return `BT /${font} ${size} Tf ${x} ${y} Td (${escaped}) Tj ET`;
}

/** As wide as the page, from its upper edge downwards. */
function drawPicture({ width, height, grey }: Picture): string {
  const shown = (600 * height) / width;
  const pixels = deflateSync(grey).toString('latin1');
  const image = `BI /W ${width} /H ${height} /BPC 8 /CS /G /F /Fl ID ${pixels}\nEI`;
  return `q 600 0 0 ${shown} 0 ${800 - shown} cm ${image} Q`;
}

/** What a reader sees of a PDF that opens only with a password. */
export const pdfPasswordTrailer = `/ID [<${'00'.repeat(16)}><${'00'.repeat(16)}>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <${'11'.repeat(32)}> /U <${'22'.repeat(32)}> >>`;

/** A small PDF whose one page unpacks to this many bytes; it has no list of its objects, which readers put up with. */
export function pdfBomb(inflatedBytes: number): Buffer {
  const content = deflateSync(Buffer.alloc(inflatedBytes, ' '));
  const head = [
    '%PDF-1.4',
    '1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj',
    '2 0 obj << /Type /Pages /Count 1 /Kids [3 0 R] >> endobj',
    '3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R >> endobj',
    `4 0 obj << /Length ${content.length} /Filter /FlateDecode >>\nstream\n`,
  ].join('\n');
  const tail = '\nendstream endobj\ntrailer << /Size 5 /Root 1 0 R >>\n%%EOF\n';
  return Buffer.concat([Buffer.from(head), content, Buffer.from(tail)]);
}

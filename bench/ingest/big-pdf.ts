/**
 * Creates a PDF with one plain text page for each list of lines, and with the minimal structure that PDF readers need.
 */
export function createPdf(pages: readonly (readonly string[])[]): Uint8Array<ArrayBuffer> {
  const firstPage = 4;
  const kids = pages.map((_, index) => `${firstPage + 2 * index} 0 R`);
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${pages.length} /Kids [${kids.join(' ')}] >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap((lines, index) => {
      const text = `BT /F1 10 Tf 12 TL 50 800 Td ${lines.map((line) => `(${escaped(line)}) Tj T*`).join(' ')} ET`;
      const resources = '/Resources << /Font << /F1 3 0 R >> >>';
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] ${resources} /Contents ${firstPage + 2 * index + 1} 0 R >>`,
        `<< /Length ${text.length} >>\nstream\n${text}\nendstream`,
      ];
    }),
  ];

  let file = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`);
  const size = objects.length + 1;
  file += `xref\n0 ${size}\n0000000000 65535 f \n${rows.join('')}`;
  file += `trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${file.lastIndexOf('xref')}\n%%EOF\n`;
  return new Uint8Array(Buffer.from(file, 'latin1'));
}

/** The standard PDF fonts are limited to plain ASCII. */
function escaped(line: string): string {
  return line.replace(/[^\x20-\x7e]/g, ' ').replace(/[\\()]/g, '\\$&');
}

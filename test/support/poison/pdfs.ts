/** A PDF of these objects, numbered from 1 on, without a list of where they are, which readers put up with. */
function pdfOf(objects: string[]): Buffer {
  const parts = objects.map((object, index) => `${index + 1} 0 obj\n${object}\nendobj\n`);
  const trailer = `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\n%%EOF\n`;
  return Buffer.from(`%PDF-1.4\n${parts.join('')}${trailer}`);
}

const catalog = '<< /Type /Catalog /Pages 2 0 R >>';
const page = '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R >>';

/** Its pages are their own children. */
export function pdfOfCircle(): Buffer {
  return pdfOf([catalog, '<< /Type /Pages /Count 1000 /Parent 2 0 R /Kids [2 0 R 3 0 R 2 0 R] >>', page]);
}

/** A page that is named as often as somebody likes. */
export function pdfOfOnePageOften(times: number): Buffer {
  const stream = '<< /Length 40 >>\nstream\nBT /F1 10 Tf 50 700 Td (words) Tj ET    \nendstream';
  return pdfOf([catalog, `<< /Type /Pages /Count ${times} /Kids [${'3 0 R '.repeat(times)}] >>`, page, stream]);
}

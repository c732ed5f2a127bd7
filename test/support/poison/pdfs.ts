import { deflateSync } from 'node:zlib';
import { flateBomb } from './archives.ts';

/** A PDF of these objects, numbered from 1 on, without a list of where they are, which readers put up with. */
function pdfOf(objects: (string | Buffer)[]): Buffer {
  const parts = objects.flatMap((object, index) => [
    Buffer.from(`${index + 1} 0 obj\n`),
    Buffer.from(object),
    Buffer.from('\nendobj\n'),
  ]);
  const trailer = `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\n%%EOF\n`;
  return Buffer.concat([Buffer.from('%PDF-1.4\n'), ...parts, Buffer.from(trailer)]);
}

const catalog = '<< /Type /Catalog /Pages 2 0 R >>';
const page = '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R >>';

/** Packed twice: some kilobytes are gigabytes. */
export function pdfOfPackedZeros(inflatedMiB: number): Buffer {
  const content = deflateSync(flateBomb(inflatedMiB));
  return pdfOf([
    catalog,
    '<< /Type /Pages /Count 1 /Kids [3 0 R] >>',
    page,
    Buffer.concat([
      Buffer.from(`<< /Length ${content.length} /Filter [/FlateDecode /FlateDecode] >>\nstream\n`),
      content,
      Buffer.from('\nendstream'),
    ]),
  ]);
}

/** Its pages are their own children. */
export function pdfOfCircle(): Buffer {
  return pdfOf([catalog, '<< /Type /Pages /Count 1000 /Parent 2 0 R /Kids [2 0 R 3 0 R 2 0 R] >>', page]);
}

/** A page that is named as often as somebody likes. */
export function pdfOfOnePageOften(times: number): Buffer {
  const stream = '<< /Length 40 >>\nstream\nBT /F1 10 Tf 50 700 Td (words) Tj ET    \nendstream';
  return pdfOf([catalog, `<< /Type /Pages /Count ${times} /Kids [${'3 0 R '.repeat(times)}] >>`, page, stream]);
}

/** A tree of pages of which each branch has one branch. */
export function pdfOfDeepTree(depth: number): Buffer {
  const branches = Array.from(
    { length: depth },
    (_, index) => `<< /Type /Pages /Count 1 /Parent ${index + 1} 0 R /Kids [${index + 3} 0 R] >>`,
  );
  return pdfOf([catalog, ...branches, page]);
}

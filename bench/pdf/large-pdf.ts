import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

const side = 1_000;
const sentences = 40;

/** Streams a PDF to disk whose pages each have a megabyte of pixels and about forty lines of text. */
export async function writeLargePdf(path: string, pages: number): Promise<void> {
  const file = createWriteStream(path);
  const offsets: number[] = [];
  let length = 0;
  const write = async (part: string | Buffer) => {
    length += Buffer.byteLength(part, 'latin1');
    const isRoom = typeof part === 'string' ? file.write(part, 'latin1') : file.write(part);
    if (!isRoom) await once(file, 'drain');
  };
  const object = async (...parts: (string | Buffer)[]) => {
    offsets.push(length);
    for (const part of [`${offsets.length} 0 obj\n`, ...parts, '\nendobj\n']) await write(part);
  };
  const kids = Array.from({ length: pages }, (_, index) => `${4 + 3 * index} 0 R`).join(' ');
  await write('%PDF-1.4\n');
  await object('<< /Type /Catalog /Pages 2 0 R >>');
  await object(`<< /Type /Pages /Count ${pages} /Kids [${kids}] >>`);
  await object('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>');
  for (let page = 0; page < pages; page += 1) {
    const first = offsets.length + 1;
    const lines = Array.from(
      { length: sentences },
      (_, line) => `(Sentence ${line} of page ${page} says little.) Tj T*`,
    );
    const content = `q 500 0 0 300 50 30 cm /scan Do Q BT /f 10 Tf 11 TL 50 800 Td ${lines.join(' ')} ET`;
    const resources = `/Resources << /Font << /f 3 0 R >> /XObject << /scan ${first + 2} 0 R >> >>`;
    const image = `/Type /XObject /Subtype /Image /Width ${side} /Height ${side} /BitsPerComponent 8`;
    await object(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] ${resources} /Contents ${first + 1} 0 R >>`);
    await object(`<< /Length ${content.length} >>\nstream\n${content}\nendstream`);
    await object(
      `<< ${image} /ColorSpace /DeviceGray /Length ${side * side} >>\nstream\n`,
      randomBytes(side * side),
      '\nendstream',
    );
  }
  const start = length;
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  await write(`xref\n0 ${offsets.length + 1}\n0000000000 65535 f \n${rows}`);
  await write(`trailer\n<< /Size ${offsets.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`);
  file.end();
  await once(file, 'close');
}

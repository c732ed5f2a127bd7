import { deflateSync } from 'node:zlib';
import { expect } from 'chai';
import PDFDocument from 'pdfkit';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  type ConverterEnvironment,
  createConverterEnvironment,
  needsPdfium,
} from '#test/support/converter-environment.ts';

const MiB = 1024 ** 2;

describe('reading a PDF', () => {
  let environment: ConverterEnvironment;
  before(async function () {
    needsPdfium(this);
    environment = await createConverterEnvironment();
  });
  after(() => environment?.remove());

  async function made(write: (document: PDFKit.PDFDocument) => void, options = {}): Promise<Buffer> {
    const document = new PDFDocument({ font: 'Helvetica', ...options });
    write(document);
    document.end();
    return Buffer.concat(await document.toArray());
  }

  it('keeps form fields and notes, but no passwords', async () => {
    const { body } = await environment.convert(
      'form.pdf',
      await made((document) => {
        document.initForm();
        document.text('Name of the applicant:', 72, 100).formText('name', 220, 96, 200, 20, { value: 'Ada Lovelace' });
        document.text('City of birth:', 72, 140).formText('city', 220, 136, 200, 20, { value: 'London' });
        document
          .text('Secret word:', 72, 180)
          .formText('secret', 220, 176, 200, 20, { value: 'xyzzy', password: true });
        document.note(72, 400, 20, 20, 'Check the year.').note(72, 500, 20, 20, 'Call her back.');
      }),
    );
    expect(body.split('\n\n')).eql([
      'Name of the applicant: Ada Lovelace',
      'City of birth: London',
      'Secret word:',
      'Note: Check the year.',
      'Note: Call her back.',
    ]);
  });

  it('keeps long notes, and marks a truncated one', async () => {
    const read = async (letters: number) => {
      const file = await made((document) => document.note(72, 400, 20, 20, `Long: ${'x'.repeat(letters)}`));
      return (await environment.convert('a.pdf', file)).body;
    };
    expect(await read(15_000)).equal(`Note: Long: ${'x'.repeat(15_000)}`);
    expect(await read(150_000))
      .match(/^Note: Long: x+ \[…\]$/)
      .and.have.length.below(101_000);
  });

  it('opens PDFs that have only an owner password', async () => {
    const options = { ownerPassword: 'owner', permissions: { copying: false } };
    const { body } = await environment.convert('a.pdf', await made((document) => document.text('Read me.'), options));
    expect(body).equal('Read me.');
    const locked = await made((document) => document.text('Read me.'), { userPassword: 'user' });
    expect(await appErrorCode(environment.convert('b.pdf', locked))).equal('encrypted_document');
  });

  it('stays within its limits for endless page trees and decompression bombs', async () => {
    const codeOf = (...file: Parameters<ConverterEnvironment['convert']>) => appErrorCode(environment.convert(...file));
    const tree = (pages: string) =>
      `%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n2 0 obj << /Type /Pages ${pages} >> endobj\n` +
      '3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] >> endobj\ntrailer << /Root 1 0 R >>\n%%EOF\n';
    expect(await codeOf('a.pdf', tree('/Count 5 /Kids [2 0 R 2 0 R]'))).equal('corrupt_document');
    expect(await codeOf('b.pdf', tree(`/Count 100000 /Kids [${'3 0 R '.repeat(100_000)}]`))).equal('too_large');
    expect(await codeOf('c.pdf', objectBomb(256 * MiB), { processMemoryBytes: 100 * MiB })).equal('too_large');
  });
});

/** A PDF whose catalog and pages are in an object stream that unpacks to this many bytes. */
function objectBomb(inflatedBytes: number): Buffer {
  const objects = ['<< /Type /Catalog /Pages 2 0 R >>', '<< /Type /Pages /Count 0 /Kids [] >>'];
  const head = `1 0 2 ${(objects[0]?.length ?? 0) + 1} `;
  const content = Buffer.alloc(inflatedBytes, ' ');
  content.write(head + objects.join(' '));
  const packed = deflateSync(content);
  const start = '%PDF-1.5\n';
  const stream = Buffer.concat([
    Buffer.from(
      `3 0 obj << /Type /ObjStm /N 2 /First ${head.length} /Length ${packed.length} /Filter /FlateDecode >> stream\n`,
    ),
    packed,
    Buffer.from('\nendstream endobj\n'),
  ]);
  const places: [number, number, number][] = [
    ...([
      [0, 0, 0],
      [2, 3, 0],
      [2, 3, 1],
    ] satisfies [number, number, number][]),
    ...([
      [1, start.length, 0],
      [1, start.length + stream.length, 0],
    ] satisfies [number, number, number][]),
  ];
  const table = Buffer.alloc(places.length * 7);
  places.forEach(([kind, place, index], row) => {
    table.writeUInt8(kind, row * 7);
    table.writeUInt32BE(place, row * 7 + 1);
    table.writeUInt16BE(index, row * 7 + 5);
  });
  const xref = `4 0 obj << /Type /XRef /Size 5 /W [1 4 2] /Root 1 0 R /Length ${table.length} >> stream\n`;
  return Buffer.concat([
    ...[Buffer.from(start), stream, Buffer.from(xref), table],
    Buffer.from(`\nendstream endobj\nstartxref\n${start.length + stream.length}\n%%EOF\n`),
  ]);
}

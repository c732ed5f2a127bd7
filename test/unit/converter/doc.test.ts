import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseDoc } from '#src/adapters/converter/formats/doc.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/document-fixtures.ts';

const folder = join(import.meta.dirname, '../../support/files');
const parse = async (bytes: Buffer) => parseDoc({ bytes, fileName: 'a.doc' });

describe('reading an old Word file', () => {
  /** Written by LibreOffice for Word 97. */
  let bytes: Buffer;
  before(async () => {
    bytes = await readFile(join(folder, 'old-word.doc'));
  });

  it('keeps headings, list numbers, merged cells, notes, comments and links, and drops hidden text', async () => {
    const body = [
      'Ministry of Supply',
      '# Leave policy',
      'Größe, Привет and 日本. The fee[^1] is 5 %, see [our site](https://example.org/a).',
      '[^1]: Without tax.',
      '> Comment by Ann: Is this right?',
      '## Claims',
      '1. one\n   - (a) inner\n2. two\n- point',
      '| Office | Staff |  |\n| --- | --- | --- |\n| North | Ann | a\\|b |\n| North | Bob | c |',
      'The end.',
    ].join('\n\n');
    expect(await parse(bytes)).include({ body, title: 'Leave policy' });
  });

  it('drops text hidden by a style, unless its formatting shows it again', async () => {
    const { body } = await parse(await readFile(join(folder, 'words-hidden-by-styles.doc')));
    expect(body).equal('kept shown taken back\n\nThe end.');
  });

  it('rejects files with a password and files older than Word 97', async () => {
    expect(await appErrorCode(parse(lockedDoc(bytes)))).equal('encrypted_document');
    const old = Buffer.from(bytes);
    old.writeUInt16LE(104, mainStreamOf(bytes) + 2);
    expect(await appErrorCode(parse(old))).equal('unsupported_format');
  });

  it('terminates for any wrong offset or length in the tables of the file', async () => {
    for (let offset = mainStreamOf(bytes) + 154; offset < mainStreamOf(bytes) + 154 + 75 * 8; offset += 4) {
      const copy = Buffer.from(bytes);
      copy.writeUInt32LE(0x7ffffff0, offset);
      await parse(copy).catch((error: unknown) => expect(error).instanceOf(Error));
    }
  });

  it('rejects a file that lacks a required stream, and one that states more text than the file can hold', async () => {
    const main = Buffer.alloc(1_000);
    main.writeUInt16LE(193, 2);
    main.writeUInt32LE(21, 422);
    const pieces = Buffer.alloc(21);
    pieces.writeUInt8(2);
    pieces.writeUInt32LE(16, 1);
    pieces.writeUInt32LE(1_001, 9);
    for (const [streams, detail] of [
      [{ '0Table': pieces }, 'lacks the part that holds its text'],
      [{ WordDocument: main }, 'table stream is missing'],
      [{ WordDocument: main, '0Table': pieces }, 'stated text length is larger'],
    ] as const) {
      const failure = await parse(compoundFile(streams)).catch((error: unknown) => error);
      expect(failure).include({ code: 'corrupt_document' }).property('message').include(detail);
    }
  });
});

/** The offset of the main stream of a file of Word 97: streams begin at sectors, and this mark begins the main one. */
function mainStreamOf(file: Buffer): number {
  for (let offset = 512; ; offset += 512) if (file.readUInt16LE(offset) === 0xa5ec) return offset;
}

/** A file of Word 97 whose header says that its text is encrypted. */
function lockedDoc(file: Buffer): Buffer {
  const locked = Buffer.from(file);
  const flags = mainStreamOf(file) + 10;
  locked.writeUInt16LE(locked.readUInt16LE(flags) | 0x100, flags);
  return locked;
}

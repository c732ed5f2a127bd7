import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseDoc } from '#src/adapters/converter/formats/doc.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

/** Written by LibreOffice for Word 97. */
const folder = join(import.meta.dirname, '../../support/files');
const path = join(folder, 'old-word.doc');

describe('parseDoc', () => {
  let bytes: Buffer;
  let header: number;
  before(async () => {
    bytes = await readFile(path);
    // Streams start at sector boundaries; the main stream starts with this signature.
    for (header = 512; bytes.readUInt16LE(header) !== 0xa5ec; ) header += 512;
  });

  async function codeOf(change: (copy: Buffer) => void): Promise<string> {
    const copy = Buffer.from(bytes);
    change(copy);
    return appErrorCode((async () => parseDoc({ bytes: copy, fileName: 'a.doc' }))());
  }

  it('keeps headings, list numbers, merged cells, notes, comments and links, and drops hidden text', async () => {
    const { body, title } = await parseDoc({ bytes, fileName: 'a.doc' });
    expect(body).to.equal(
      [
        'Ministry of Supply',
        '# Leave policy',
        'Größe, Привет and 日本. The fee[^1] is 5 %, see [our site](https://example.org/a).',
        '[^1]: Without tax.',
        '> Comment by Ann: Is this right?',
        '## Claims',
        '1. one\n   - (a) inner\n2. two\n- point',
        '| Office | Staff |  |\n| --- | --- | --- |\n| North | Ann | a\\|b |\n| North | Bob | c |',
        'The end.',
      ].join('\n\n'),
    );
    expect(title).to.equal('Leave policy');
  });

  it('drops text hidden by a style, unless its formatting shows it again', async () => {
    const styled = await readFile(join(folder, 'words-hidden-by-styles.doc'));
    const { body } = await parseDoc({ bytes: styled, fileName: 'a.doc' });
    expect(body).to.equal('kept shown taken back\n\nThe end.');
  });

  it('rejects files with a password and files older than Word 97', async () => {
    expect(await codeOf((copy) => copy.writeUInt16LE(copy.readUInt16LE(header + 10) | 0x100, header + 10))).to.equal(
      'encrypted_document',
    );
    expect(await codeOf((copy) => copy.writeUInt16LE(104, header + 2))).to.equal('unsupported_format');
  });

  it('terminates for any table offset or length', async () => {
    // Table offsets and lengths follow the text lengths.
    for (let place = header + 154; place < header + 154 + 75 * 8; place += 4) {
      const copy = Buffer.from(bytes);
      copy.writeUInt32LE(0x7ffffff0, place);
      await Promise.resolve()
        .then(() => parseDoc({ bytes: copy, fileName: 'a.doc' }))
        .catch((error: unknown) => expect(error).to.be.instanceOf(Error));
    }
  });
});

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseDoc } from '#src/adapters/converter/formats/doc.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

/** Written by LibreOffice for Word 97. */
const folder = join(import.meta.dirname, '../../support/files');
const path = join(folder, 'old-word.doc');

describe('a Word file of before 2007', () => {
  let bytes: Buffer;
  let header: number;
  before(async () => {
    bytes = await readFile(path);
    // Streams begin at sectors, and this mark begins the main one.
    for (header = 512; bytes.readUInt16LE(header) !== 0xa5ec; ) header += 512;
  });

  async function codeOf(change: (copy: Buffer) => void): Promise<string> {
    const copy = Buffer.from(bytes);
    change(copy);
    return appErrorCode((async () => parseDoc({ bytes: copy, fileName: 'a.doc' }))());
  }

  it('keeps headings, numbers of lists, merged cells, notes, comments and links, and nothing hidden', async () => {
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

  it('leaves out words that a style hides, and keeps those that are taken back', async () => {
    const styled = await readFile(join(folder, 'words-hidden-by-styles.doc'));
    const { body } = await parseDoc({ bytes: styled, fileName: 'a.doc' });
    expect(body).to.equal('kept shown taken back\n\nThe end.');
  });

  it('is not read when it wants a password or is too old', async () => {
    expect(await codeOf((copy) => copy.writeUInt16LE(copy.readUInt16LE(header + 10) | 0x100, header + 10))).to.equal(
      'encrypted_document',
    );
    expect(await codeOf((copy) => copy.writeUInt16LE(104, header + 2))).to.equal('unsupported_format');
  });

  it('ends whatever its tables claim', async () => {
    // The first table places lie behind the lengths of texts.
    for (let place = header + 154; place < header + 154 + 75 * 8; place += 4) {
      const copy = Buffer.from(bytes);
      copy.writeUInt32LE(0x7ffffff0, place);
      await Promise.resolve()
        .then(() => parseDoc({ bytes: copy, fileName: 'a.doc' }))
        .catch((error: unknown) => expect(error).to.be.instanceOf(Error));
    }
  });
});

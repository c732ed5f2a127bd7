import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { detectCompoundFileFormat, listCompoundFileEntries } from '#src/adapters/converter/detect-format.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/compound-file.ts';

describe('detecting a compound file', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'compound-test-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  async function rootOf(content: Buffer): Promise<string[]> {
    const path = join(folder, 'file');
    await writeFile(path, content);
    const file = await open(path);
    try {
      return await listCompoundFileEntries(file);
    } finally {
      await file.close();
    }
  }

  it('uses the streams at the root, not those of embedded files', async () => {
    const letter = compoundFile({ WordDocument: 'x', 'ObjectPool/_1/Workbook': 'x', '1Table': 'x' });
    const names = await rootOf(letter);
    expect(names).to.include.members(['WordDocument', 'ObjectPool', '1Table']).and.not.include('Workbook');
    expect(detectCompoundFileFormat(names)).to.eql('doc');
  });

  it('distinguishes .doc, .xls, .ppt, .msg and other compound files', async () => {
    const kindOf = async (stream: string) => detectCompoundFileFormat(await rootOf(compoundFile({ [stream]: 'x' })));
    expect(await kindOf('Workbook')).to.eql('xls');
    expect(await kindOf('Book')).to.eql('xls');
    expect(await kindOf('PowerPoint Document')).to.eql('ppt');
    expect(await kindOf('__properties_version1.0')).to.eql('msg');
    expect(await kindOf('EncryptedPackage')).to.equal('protected');
    const locked = compoundFile({ 'PowerPoint Document': 'x', EncryptedSummary: 'x' });
    expect(detectCompoundFileFormat(await rootOf(locked))).to.equal('protected');
    expect(await kindOf('Thumbs')).to.eql({ name: 'an old Office file of an unknown kind' });
  });

  it('reads a directory beyond the sectors that the header lists', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `stream ${index}`);
    const large = compoundFile(Object.fromEntries(names.map((name) => [name, Buffer.alloc(256 * 1024)])));
    expect(await rootOf(large)).to.include.members(names);
  });

  it('rejects a directory that is truncated, out of bounds or cyclic', async () => {
    const whole = compoundFile({ WordDocument: Buffer.alloc(10_000) });
    const directory = whole.readUInt32LE(48);
    const table = whole.readUInt32LE(76);
    const circle = Buffer.from(whole);
    circle.writeUInt32LE(directory, (table + 1) * 512 + directory * 4);
    const outside = Buffer.from(whole);
    outside.writeUInt32LE(0xfffffff0, 48);
    const lists = Buffer.from(whole);
    lists.writeUInt32LE(directory, 68);
    for (const damaged of [whole.subarray(0, 600), circle, outside, lists])
      expect(await appErrorCode(rootOf(damaged))).to.equal('corrupt_document');
  });
});

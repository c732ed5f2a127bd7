import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { packTar } from 'modern-tar';
import { readArchiveEntries } from '#src/adapters/converter/archive-entries.ts';
import { zipFile } from '#test/support/document-fixtures.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

describe('readArchiveEntries', () => {
  const pathOf = useTemporaryFolder();
  const zip = { zipInflatedBytes: 150_000, zipRatio: 10, zipRatioFromBytes: 100_000 };
  const limits = { archiveEntries: 3, archiveInflatedBytes: 1_000_000, ...zip };
  const tarOf = async (...files: [name: string, body: Buffer | string][]) =>
    Buffer.from(
      await packTar(
        files.map(([name, body]) => ({
          header: { name, size: body.length, type: 'file' },
          body: new Uint8Array(Buffer.from(body)),
        })),
      ),
    );
  const zeros = Buffer.alloc(200_000);

  /** Reads every second file, so that entries that are not opened are passed over. */
  async function read(content: Buffer): Promise<unknown> {
    await writeFile(pathOf('a'), content);
    const found: string[] = [];
    try {
      for await (const { path, refusal, open } of readArchiveEntries(pathOf('a'), limits)) {
        const text = refusal === null && found.length % 2 === 0 ? await buffer(await open()) : '';
        found.push(`${path}: ${refusal ?? text}`);
      }
    } catch (error) {
      return Object(error).code;
    }
    return found;
  }

  it('reads the files of each kind of archive, and rejects bombs and damaged archives', async () => {
    const files: [string, string][] = ['aa', 'bb', 'cc'].map((name) => [`${name}/a.txt`, name]);
    const contents = ['aa/a.txt: aa', 'bb/a.txt: ', 'cc/a.txt: cc'];
    const tar = await tarOf(...files);
    const zip = zipFile(Object.fromEntries(files));
    const [climbing, locked] = [
      Buffer.from(zip.toString('latin1').replaceAll('aa/', '../'), 'latin1'),
      Buffer.from(zip),
    ];
    const directory = locked.indexOf('PK\x01\x02', 0, 'latin1');
    locked.writeUInt16LE(locked.readUInt16LE(directory + 8) | 1, directory + 8);
    const noise = randomBytes(600_000);
    for (const [title, content, result] of [
      ['zip', zip, contents],
      ['tar', tar, contents],
      ['tar.gz', gzipSync(tar), contents],
      ['unsafe path', climbing, ['../a.txt: its path leads out of the archive', ...contents.slice(1)]],
      ['password', locked, ['aa/a.txt: it is protected by a password', ...contents.slice(1)]],
      ['too many files', await tarOf(...files, ['d', 'd']), 'too_large'],
      ['too much', await tarOf(['a', noise], ['b', noise]), 'too_large'],
      ['bomb', gzipSync(await tarOf(['a.txt', zeros])), 'too_large'],
      [
        'zipped bomb',
        zipFile({ 'a.txt': zeros }),
        [`a.txt: it decompresses to more data than is allowed for its size`],
      ],
      ['cut off', tar.subarray(0, 700), 'corrupt_document'],
      ['cut off tar.gz', gzipSync(await tarOf(['a', noise])).subarray(0, 300_000), 'corrupt_document'],
      ['cut off zip', zip.subarray(0, zip.length - 30), 'corrupt_document'],
      ['no archive', Buffer.alloc(2_000, 'x'), 'corrupt_document'],
    ] as const) {
      expect(await read(content), title).deep.equal(result);
    }
  });
});

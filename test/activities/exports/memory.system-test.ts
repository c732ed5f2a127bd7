import { expect } from 'chai';
import { createZipArchive } from '#src/modules/exports/volume-writer.ts';
import { stack } from '#test/support/stack.ts';

describe('memory of an export', () => {
  it('stays at a few pieces of a large file', async () => {
    const { blobs } = (await stack()).container;
    const megabyte = Buffer.alloc(1_048_576, 'x');
    const size = 300;
    async function archiveOf(megabytes: number): Promise<number> {
      const archive = createZipArchive(new Date());
      const staged = blobs.stage({ content: archive.content, limitBytes: 2 * size * megabyte.length });
      let highest = 0;
      async function* pieces() {
        for (let made = 0; made < megabytes; made += 1) {
          highest = Math.max(highest, process.memoryUsage().rss);
          yield megabyte;
        }
      }
      await archive.add('large', pieces(), { isPacked: true });
      archive.end();
      const { stagingKey, sizeBytes } = await staged;
      await blobs.unstage(stagingKey);
      expect(sizeBytes).above(megabytes * megabyte.length);
      return highest;
    }
    await archiveOf(8);
    const small = await archiveOf(8);
    expect(await archiveOf(size)).below(small + 100 * megabyte.length);
  });
});

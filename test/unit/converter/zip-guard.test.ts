import { writeFile } from 'node:fs/promises';
import { expect } from 'chai';
import { checkZipArchiveLimits } from '#src/adapters/converter/zip-guard.ts';
import { zipFile } from '#test/support/document-fixtures.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

describe('checkZipArchiveLimits', () => {
  const pathOf = useTemporaryFolder();
  const limits = { zipEntries: 2, zipInflatedBytes: 1_000_000, zipRatio: 10, zipRatioFromBytes: 100_000 };
  async function refusal(content: string | Record<string, string>): Promise<unknown> {
    await writeFile(pathOf('a.zip'), typeof content === 'string' ? content : zipFile(content));
    const failure = await checkZipArchiveLimits(pathOf('a.zip'), limits).catch((error: unknown) => error);
    return Object(failure).code;
  }

  it('rejects zip bombs, damaged archives, and XML files that declare an entity at any position', async () => {
    // Archives are read in pieces, one of whose ends is in the middle of the mark.
    const marks = Array.from({ length: 8 }, (_, n) => `${' '.repeat(65_536 - n)}<!EnTiTy a "b">`);
    for (const [content, code] of [
      ...[...marks, '<!ENTITY a "b">'].map((xml) => [{ 'a.XML': xml }, 'corrupt_document'] as const),
      [{ 'a.txt': '<!ENTITY a "b">', 'a.rels': '<a/>' }, undefined],
      [{ 'a.txt': ' '.repeat(100_000) }, undefined],
      [{ 'a.txt': ' '.repeat(100_001) }, 'too_large'],
      [{ a: '', b: '', c: '' }, 'too_large'],
      ['no archive', 'corrupt_document'],
    ] as const) {
      expect(await refusal(content), JSON.stringify(content).slice(0, 50)).equal(code);
    }
  });
});

import { Readable } from 'node:stream';
import type { BlobStore, StagedBlob } from '#src/ports/blob-store.ts';

export async function putBlob(
  blobs: Pick<BlobStore, 'stage' | 'promote'>,
  key: string,
  content: string | Uint8Array,
): Promise<StagedBlob> {
  const staged = await blobs.stage({ content: Readable.from([Buffer.from(content)]), limitBytes: 1_000_000_000 });
  await blobs.promote(staged.stagingKey, key);
  return staged;
}

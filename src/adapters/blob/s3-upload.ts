import { appendFile, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import pLimit from 'p-limit';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';

/** Stores take no smaller ones, but for the last. */
const PART_BYTES = 5 * 1024 ** 2;
/** Of all uploads of the process. They come from our own disk, so that nobody who sends slowly keeps a place. */
const PARTS_AT_ONCE = 16;

type Place = { Bucket: string; Key: string };

/**
 * Uploads objects whose size nobody knows before their end. A part waits in a file of `tempDir` until it is complete:
 * memory holds only those that are on their way, however many clients send at once, and however slowly.
 * @returns what fails of the store is thrown as it is, and nothing is left behind
 */
export function createS3Upload({ client, tempDir }: { client: S3Client; tempDir: string }) {
  const limit = pLimit(PARTS_AT_ONCE);

  return async function upload(place: Place, content: AsyncIterable<Buffer>): Promise<void> {
    const directory = await makeTemporaryFolder(tempDir, 'upload');
    const pathOf = (part: number) => join(directory, String(part));
    const completed: CompletedPart[] = [];
    let UploadId: string | undefined;
    let sending = Promise.resolve();

    async function send(PartNumber: number): Promise<void> {
      const { ETag } = await limit(async () => {
        const Body = await readFile(pathOf(PartNumber));
        return client.send(new UploadPartCommand({ ...place, UploadId, PartNumber, Body }));
      });
      completed.push({ ETag, PartNumber });
      await rm(pathOf(PartNumber));
    }
    /** While a part is on its way the next one is filled. */
    async function sendAfterLast(part: number): Promise<void> {
      await sending;
      UploadId ??= (await client.send(new CreateMultipartUploadCommand(place))).UploadId;
      sending = send(part);
      // It is looked at later, and nobody may be there any more.
      sending.catch(() => undefined);
    }

    try {
      let part = 1;
      let filledBytes = 0;
      for await (const piece of content) {
        for (let rest = piece; rest.length > 0; ) {
          if (filledBytes === PART_BYTES) {
            await sendAfterLast(part);
            part += 1;
            filledBytes = 0;
          }
          const taken = rest.subarray(0, PART_BYTES - filledBytes);
          await appendFile(pathOf(part), taken);
          filledBytes += taken.length;
          rest = rest.subarray(taken.length);
        }
      }
      if (part === 1) {
        await limit(async () => {
          const Body = filledBytes === 0 ? Buffer.alloc(0) : await readFile(pathOf(part));
          await client.send(new PutObjectCommand({ ...place, Body }));
        });
        return;
      }
      await sendAfterLast(part);
      await sending;
      await client.send(
        new CompleteMultipartUploadCommand({ ...place, UploadId, MultipartUpload: { Parts: completed } }),
      );
    } catch (error) {
      // A part that arrived after the others were taken away would stay.
      await sending.catch(() => undefined);
      const abort = new AbortMultipartUploadCommand({ ...place, UploadId });
      // What cannot be taken away now goes with the strays.
      if (UploadId !== undefined) await client.send(abort).catch(() => undefined);
      throw error;
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  };
}

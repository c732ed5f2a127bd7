import { join } from 'node:path';
import { Readable } from 'node:stream';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { ParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { AvatarMaker } from '#src/ports/documents.ts';
import { defaultConversionLimits } from '../conversion-limits.ts';
import { parserCommand, runParserProcess } from '../parser-process.ts';

const childScript = join(import.meta.dirname, 'avatar-child.ts');

const MiB = 1024 ** 2;
/** Memory for all pixels of the largest image, with 16 bits a channel; the avatar itself has some ten kilobytes. */
const limits = { wallMs: 10_000, processMemoryBytes: 600 * MiB, heapMiB: 64, outputBytes: 2 * MiB };
const maxAtOnce = 2;

const made = z.strictObject({ avatar: z.base64() });

/** In a process of its own for each image: decoders of images are native code, and the image is a stranger's. */
export function createAvatarMaker({ sandbox, tempDir }: { sandbox: ParserSandbox; tempDir: string }): AvatarMaker {
  const limit = pLimit(maxAtOnce);

  return (image, signal) =>
    limit(async () => {
      let avatar: Buffer | undefined;
      await runParserProcess({
        ...parserCommand({
          sandbox,
          script: childScript,
          args: [String(defaultConversionLimits.imagePixels)],
          readable: [],
          hasNativeCode: true,
          limits,
        }),
        workingDirectory: tempDir,
        limits,
        signal,
        input: Readable.from([image]),
        onMessage: (message) => {
          avatar = Buffer.from(made.parse(message).avatar, 'base64');
        },
      });
      if (avatar === undefined) throw new Error('The process made no avatar, and did not say why.');
      return avatar;
    });
}

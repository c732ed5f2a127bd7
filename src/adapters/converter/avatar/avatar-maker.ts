import { join } from 'node:path';
import { Readable } from 'node:stream';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { ParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { AvatarMaker } from '#src/ports/documents.ts';
import { defaultConversionProcessLimits } from '../conversion-limits.ts';
import { runParserProcess, sandboxedNodeCommand } from '../parser-process.ts';

const childScript = join(import.meta.dirname, 'avatar-child.ts');

const MiB = 1024 ** 2;
/** Limits of the avatar process; its memory holds all pixels of the largest allowed image at 16 bits per channel. */
const limits = { wallMs: 10_000, processMemoryBytes: 600 * MiB, heapMiB: 64, outputBytes: 2 * MiB };
const maxAtOnce = 2;

const made = z.strictObject({ avatar: z.base64() });

/** Each avatar is made in its own process, because image decoders are native code and the image is untrusted. */
export function createAvatarImageMaker({ sandbox, tempDir }: { sandbox: ParserSandbox; tempDir: string }): AvatarMaker {
  const limit = pLimit(maxAtOnce);

  return (image, signal) =>
    limit(async () => {
      let avatar: Buffer | undefined;
      await runParserProcess({
        ...sandboxedNodeCommand({
          sandbox,
          script: childScript,
          args: [String(defaultConversionProcessLimits.imagePixels)],
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
      if (avatar === undefined) throw new Error('The avatar process ended without an avatar or an error.');
      return avatar;
    });
}

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { ParserSandbox } from '../../parser-sandbox.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { tiffMarks } from '../detect-format.ts';
import { runParserProcess, sandboxedNodeCommand } from '../parser-process.ts';
import type { PictureSource } from './read-pictures.ts';

const childScript = join(import.meta.dirname, 'decode-child.ts');
const headBytes = 12;
const described = z.object({ pageCount: z.int().positive() });

/**
 * Returns the pages of an image file for OCR. sharp decodes TIFF and AVIF, in a process of its own: Tesseract reads no
 * AVIF, and no TIFF that is compressed as JPEG.
 */
export async function openImageForOcr(
  path: string,
  process: { sandbox: ParserSandbox; workingDirectory: string; limits: ConversionProcessLimits; signal: AbortSignal },
): Promise<PictureSource> {
  if (!(await needsDecoding(path))) return { path };
  const { sandbox, limits } = process;
  const command = (...pages: string[]) =>
    sandboxedNodeCommand({
      sandbox,
      script: childScript,
      args: [path, JSON.stringify(limits), ...pages],
      readable: [path],
      hasNativeCode: true,
      limits,
    });
  let pageCount = 0;
  const onMessage = (message: unknown) => {
    ({ pageCount } = described.parse(message));
  };
  await runParserProcess({ ...process, ...command(), onMessage });
  return {
    pages: Array.from({ length: pageCount }, (_, page) => page),
    draw: (pages, output, signal) => runParserProcess({ ...process, ...command(pages.join(',')), output, signal }),
  };
}

async function needsDecoding(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    return tiffMarks.includes(buffer.toString('latin1', 0, 4)) || buffer.toString('latin1', 4, 8) === 'ftyp';
  } finally {
    await file.close();
  }
}

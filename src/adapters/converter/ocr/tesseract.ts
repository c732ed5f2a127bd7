import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { appError } from '#src/errors.ts';

const require = createRequire(import.meta.url);

/** The engine's WebAssembly build, which has no types. */
type Engine = {
  FS: { writeFile(path: string, content: Uint8Array): void };
  TessBaseAPI: new () => {
    /** 0 when it went well; mode 1 is the neural network alone. */
    Init(dataFolder: string, languages: string, mode: number): number;
    /** Reads `/input`, turned as the EXIF orientation says. 1 when it is no image that it reads. */
    SetImageFile(orientation: number, radians: number): number;
    Recognize(monitor: null): number;
    GetJSONText(): string;
    Clear(): void;
  };
};

const box = z.object({ x0: z.number(), y0: z.number(), x1: z.number(), y1: z.number() });
const word = z.object({ text: z.string(), confidence: z.number(), bbox: box });
const line = z.object({
  words: z.array(word),
  baseline: box,
  rowAttributes: z.object({ rowHeight: z.number() }),
});
const page = z.object({
  blocks: z
    .array(z.object({ paragraphs: z.array(z.object({ lines: z.array(line) })).nullable() }))
    .nullable()
    .default(null),
});

/** What the engine makes of a line. Places are in pixels from the upper left corner, confidences from 0 to 100. */
export type EngineLine = z.infer<typeof line>;

/** Reads an image, turned as the EXIF orientation (1 to 8) says: lines in the order in which they are read. */
export type ReadImage = (image: Uint8Array, orientation: number) => EngineLine[];

/** Where the data of a language is: a package of its own for each. */
export function languageDataPath(language: string): string {
  return require.resolve(`@tesseract.js-data/${language}/4.0.0_best_int/${language}.traineddata.gz`);
}

/**
 * Starts the engine: half a second and 100 MB, so a process does it once.
 * @throws AppError corrupt_document from what it returns, for an image that it cannot decode
 */
export async function startTesseract(languages: readonly string[]): Promise<ReadImage> {
  // Of its builds the one that gives the same on every machine.
  const load: (options: object) => Promise<Engine> = require('tesseract.js-core/tesseract-core-simd-lstm');
  const quiet = () => undefined;
  const engine = await load({ print: quiet, printErr: quiet });
  for (const language of languages) {
    const data = await promisify(gunzip)(await readFile(languageDataPath(language)));
    engine.FS.writeFile(`/${language}.traineddata`, data);
  }
  const api = new engine.TessBaseAPI();
  if (api.Init('/', languages.join('+'), 1) !== 0) throw new Error('The OCR engine does not start.');

  return (image, orientation) => {
    engine.FS.writeFile('/input', image);
    const isRead = api.SetImageFile(orientation, 0) !== 1;
    // It has its own copy from here on.
    engine.FS.writeFile('/input', new Uint8Array());
    if (!isRead)
      throw appError('corrupt_document', { detail: 'The image is damaged or of a kind that cannot be read.' });
    api.Recognize(null);
    const { blocks } = page.parse(JSON.parse(api.GetJSONText()));
    api.Clear();
    return (blocks ?? []).flatMap(({ paragraphs }) => paragraphs ?? []).flatMap(({ lines }) => lines);
  };
}

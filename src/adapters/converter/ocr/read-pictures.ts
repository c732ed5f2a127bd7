import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { ParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { appError } from '#src/errors.ts';
import type { Recognition, RecognizedPage } from '#src/ports/documents.ts';
import type { ConversionLimits } from '../conversion-limits.ts';
import { layOutPages, type PdfPage, recognizedPage } from '../formats/pdf-layout.ts';
import type { CleanDocument } from '../parsed-document.ts';
import { parserCommand, runParserProcess } from '../parser-process.ts';
import type { Pictures } from './image-pages.ts';

/** How far it is: with pages left there is no document yet. */
export type Partly<Document> = { document: Document; pagesLeft: 0 } | { document: null; pagesLeft: number };

type Reader = { recognize: PageRecognizer; recognition: Recognition | undefined; signal: AbortSignal };

/**
 * The text of an image file, page for page.
 * @throws AppError empty_document when there are no words on it
 */
export async function readImage(path: string, reader: Reader): Promise<Partly<CleanDocument>> {
  if (reader.recognition === undefined) throw notRead('An image');
  const { pages, total } = await reader.recognize({ path }, reader.recognition, reader.signal);
  if (pages.size < total) return { document: null, pagesLeft: total - pages.size };
  const inOrder = [...pages.values()].sort((a, b) => a.pageIndex - b.pageIndex);
  if (inOrder.every(({ lines }) => lines.length === 0)) throw noWords('the image');
  return {
    document: { ...(await layOutPages(inOrder.map(({ lines }) => recognizedPage(lines)))), title: null },
    pagesLeft: 0,
  };
}

/**
 * Puts what is read by OCR in the place of pages that are pictures.
 * @throws AppError too_large for more of them than are read
 */
export async function readPicturePages(
  pages: PdfPage[],
  draw: DrawPages,
  reader: Reader & { limits: Pick<ConversionLimits, 'ocrPages'> },
): Promise<Partly<PdfPage[]>> {
  const pictures = pages.flatMap((page, index) => (page.isPicture ? [index] : []));
  const { recognize, recognition, signal, limits } = reader;
  if (pictures.length === 0) return { document: pages, pagesLeft: 0 };
  if (recognition === undefined) {
    if (pages.every(({ lines }) => lines.length === 0)) throw notRead('A PDF that holds pictures of its pages only');
    return { document: pages, pagesLeft: 0 };
  }
  if (pictures.length > limits.ocrPages) {
    const detail = `${pictures.length} pages of the PDF are pictures; at most ${limits.ocrPages} are read by OCR.`;
    throw appError('too_large', { detail: `${detail} Divide it, or upload it with a text layer.` });
  }
  const { pages: read, total } = await recognize({ pages: pictures, draw }, recognition, signal);
  if (read.size < total) return { document: null, pagesLeft: total - read.size };
  const all = pages.map((page, index) => {
    const lines = read.get(index)?.lines ?? [];
    // A stamp on a picture without words is better than nothing.
    return lines.length > 0 ? recognizedPage(lines) : page;
  });
  if (all.every(({ lines }) => lines.length === 0)) throw noWords('its pages');
  return { document: all, pagesLeft: 0 };
}

function notRead(what: string) {
  return appError('unsupported_format', { detail: `${what} is not read here; upload it as a document.` });
}

function noWords(where: string) {
  return appError('empty_document', { detail: `No words were found on ${where}: OCR reads printed text.` });
}

const childScript = join(import.meta.dirname, 'ocr-child.ts');

const ocrMessage = z.union([
  z.object({ pageCount: z.int().positive() }),
  z.object({
    pageIndex: z.int().nonnegative(),
    lines: z.array(z.tuple([z.string(), z.number(), z.number(), z.number(), z.number(), z.boolean(), z.number()])),
  }),
]);

const sliceOver = new Error('The slice is over.');

/** Draws these pages of a document into a stream of PGM images, in their order. */
export type DrawPages = (pages: number[], output: PassThrough, signal: AbortSignal) => Promise<void>;

type PictureSource = { path: string } | { pages: number[]; draw: DrawPages };

type PageRecognizer = ReturnType<typeof createPageRecognizer>;

/**
 * Reads pictures of text by OCR, in a process of its own.
 *
 * @param deps.languages of the texts, as the engine names them
 */
export function createPageRecognizer(deps: {
  sandbox: ParserSandbox;
  languages: readonly string[];
  workingDirectory: string;
  limits: ConversionLimits;
}) {
  const { sandbox, languages, workingDirectory, limits } = deps;
  // Not the limit of the parsers: a small file must not wait until the pages of a scan are read.
  const limit = pLimit(availableParallelism());

  /**
   * Goes on until all pages are read or the slice is over.
   * @returns all that is known now, by page, and how many there are to be read in all
   */
  return async function recognizePages(
    source: PictureSource,
    recognition: Recognition,
    signal: AbortSignal,
  ): Promise<{ pages: Map<number, RecognizedPage>; total: number }> {
    const pages = new Map(recognition.known.map((page) => [page.pageIndex, page]));
    // Of a file it is known when it is opened, also when there is no page left to be read.
    let total = 'pages' in source ? source.pages.length : Number.POSITIVE_INFINITY;
    if (pages.size >= total) return { pages, total };

    await limit(async () => {
      const endsAt = performance.now() + recognition.sliceMs;
      const stop = new AbortController();
      const end = (reason: unknown) => stop.abort(reason);
      const kept: Promise<void>[] = [];
      const either = AbortSignal.any([signal, stop.signal]);
      const images = new PassThrough();
      const wanted = 'pages' in source ? source.pages.filter((page) => !pages.has(page)) : [];
      const pictures: Pictures =
        'pages' in source
          ? { from: 'input', pages: wanted }
          : { from: 'file', path: source.path, known: [...pages.keys()] };

      const reading = runParserProcess({
        ...parserCommand({
          sandbox,
          script: childScript,
          args: [languages.join('+'), JSON.stringify(pictures), JSON.stringify(limits)],
          readable: 'path' in source ? [source.path] : [],
          limits,
        }),
        ...('pages' in source && { input: images }),
        workingDirectory,
        limits,
        signal: either,
        isWallPerMessage: true,
        onMessage: (message) => {
          const page = ocrMessage.parse(message);
          if ('pageCount' in page) {
            total = page.pageCount;
            return;
          }
          pages.set(page.pageIndex, page);
          const keeping = recognition.keep(page, { done: pages.size, total });
          keeping.catch(end);
          kept.push(keeping);
          if (performance.now() >= endsAt) end(sliceOver);
        },
      });
      const drawing = 'pages' in source ? source.draw(wanted, images, either) : undefined;
      await Promise.allSettled([reading, drawing].map((work) => work?.catch(end)));
      signal.throwIfAborted();
      if (stop.signal.aborted && stop.signal.reason !== sliceOver) throw stop.signal.reason;
      await Promise.all(kept);
      if (!Number.isFinite(total)) throw appError('corrupt_document', { detail: 'Reading the image gave nothing.' });
    });
    return { pages, total };
  };
}

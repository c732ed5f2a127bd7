import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Writable } from 'node:stream';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { ParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { appError } from '#src/errors.ts';
import type { OcrOptions, OcrPage } from '#src/ports/documents.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { pdfPagesToMarkdown } from '../formats/pdf-layout.ts';
import { type PdfPage, pdfPageFromOcr } from '../formats/pdf-page.ts';
import type { CleanParsedDocument } from '../parsed-document.ts';
import { runParserProcess, sandboxedNodeCommand } from '../parser-process.ts';
import type { OcrProcessInput } from './image-pages.ts';
import { isUnreadableNote } from './unreadable-pages.ts';

export type OcrProgress<Document> = { document: Document; pagesLeft: 0 } | { document: null; pagesLeft: number };

type Reader = { recognize: PageRecognizer; recognition: OcrOptions | undefined; signal: AbortSignal };

export async function readImageByOcr(
  source: PictureSource,
  { recognize, recognition, signal }: Reader,
): Promise<OcrProgress<CleanParsedDocument>> {
  if (recognition === undefined) throw ocrNeeded('An image');
  const { pages, total } = await recognize(source, recognition, signal);
  if (pages.size < total) return { document: null, pagesLeft: total - pages.size };
  const inOrder = [...pages.values()].sort((a, b) => a.pageIndex - b.pageIndex);
  requireWords(inOrder, 'the image');
  return {
    document: { ...(await pdfPagesToMarkdown(inOrder.map(({ lines }) => pdfPageFromOcr(lines)))), title: null },
    pagesLeft: 0,
  };
}

/**
 * Adds to scanned pages of a PDF their text from OCR.
 * @throws AppError too_large for more pages without text than OCR may read
 */
export async function readPdfPagesByOcr(
  pages: PdfPage[],
  draw: DrawPages,
  reader: Reader & { limits: Pick<ConversionProcessLimits, 'ocrPages'> },
): Promise<OcrProgress<PdfPage[]>> {
  const pictures = pages.flatMap((page, index) => (page.isPicture ? [index] : []));
  const { recognize, recognition, signal, limits } = reader;
  if (pictures.length === 0) return { document: pages, pagesLeft: 0 };
  if (recognition === undefined) {
    if (pages.every(({ lines }) => lines.length === 0)) throw ocrNeeded('A PDF of scanned pages');
    return { document: pages, pagesLeft: 0 };
  }
  if (pictures.length > limits.ocrPages) {
    const detail = `${pictures.length} pages of the PDF have no text; OCR reads at most ${limits.ocrPages}.`;
    throw appError('too_large', { detail: `${detail} Split the PDF, or upload one with a text layer.` });
  }
  const { pages: read, total } = await recognize({ pages: pictures, draw }, recognition, signal);
  if (read.size < total) return { document: null, pagesLeft: total - read.size };
  const all = pages.map((page, index) => {
    const lines = read.get(index)?.lines ?? [];
    // The text that the PDF itself has for the page is not in the picture that OCR reads.
    return lines.length > 0 ? pdfPageFromOcr(lines, page.lines) : page;
  });
  if (pages.every(({ lines }) => lines.length === 0)) requireWords([...read.values()], 'the pages of the PDF');
  return { document: all, pagesLeft: 0 };
}

function ocrNeeded(what: string) {
  return appError('unsupported_format', {
    detail: `${what} needs OCR, which runs only for uploaded documents. Upload the file as a document.`,
  });
}

function requireWords(pages: readonly OcrPage[], where: string): void {
  const lines = pages.flatMap((page) => page.lines.map((line) => ({ pageIndex: page.pageIndex, line })));
  if (lines.some(({ pageIndex, line }) => !isUnreadableNote(pageIndex, line))) return;
  const reason = lines[0]?.line[0] ?? 'It reads only printed text.';
  throw appError('empty_document', { detail: `OCR found no words on ${where}. ${reason}` });
}

const childScript = join(import.meta.dirname, 'ocr-child.ts');

const ocrMessage = z.object({
  pageIndex: z.int().nonnegative(),
  lines: z.array(z.tuple([z.string(), z.number(), z.number(), z.number(), z.number(), z.boolean(), z.number()])),
});

const sliceEnded = new Error('The OCR time slice ended before all pages were recognized.');

/** Writes pages (from 0) as consecutive PGM images to `output`. */
export type DrawPages = (pages: number[], output: Writable, signal: AbortSignal) => Promise<void>;

/** An image file that Tesseract reads itself, or pages that another process draws. */
export type PictureSource = { path: string } | { pages: number[]; draw: DrawPages };

type PageRecognizer = ReturnType<typeof createOcrPageRecognizer>;

export function createOcrPageRecognizer(deps: {
  sandbox: ParserSandbox;
  languages: readonly string[];
  workingDirectory: string;
  limits: ConversionProcessLimits;
}) {
  const { sandbox, languages, workingDirectory, limits } = deps;
  // OCR has its own concurrency limit, so that parsers of small files do not wait for the pages of a scan.
  const limit = pLimit(availableParallelism());

  return async function recognizePages(
    source: PictureSource,
    recognition: OcrOptions,
    signal: AbortSignal,
  ): Promise<{ pages: Map<number, OcrPage>; total: number }> {
    const pages = new Map(recognition.known.map((page) => [page.pageIndex, page]));
    const total = 'pages' in source ? source.pages.length : 1;
    if (pages.size >= total) return { pages, total };

    await limit(async () => {
      const endsAt = performance.now() + recognition.sliceMs;
      const stop = new AbortController();
      const end = (reason: unknown) => stop.abort(reason);
      const saves: Promise<void>[] = [];
      const anySignal = AbortSignal.any([signal, stop.signal]);
      const images = new PassThrough();
      const wanted = 'pages' in source ? source.pages.filter((page) => !pages.has(page)) : [];
      const pictures: OcrProcessInput =
        'pages' in source ? { from: 'input', pages: wanted } : { from: 'file', path: source.path };

      const reading = runParserProcess({
        ...sandboxedNodeCommand({
          sandbox,
          script: childScript,
          args: [languages.join('+'), JSON.stringify(pictures), JSON.stringify(limits)],
          readable: 'path' in source ? [source.path] : [],
          limits,
        }),
        ...('pages' in source && { input: images }),
        workingDirectory,
        limits,
        signal: anySignal,
        isWallPerMessage: true,
        onMessage: (message) => {
          const page = ocrMessage.parse(message);
          pages.set(page.pageIndex, page);
          const save = recognition.keep(page, { done: pages.size, total });
          save.catch(end);
          saves.push(save);
          if (performance.now() >= endsAt) end(sliceEnded);
        },
      });
      const drawing = 'pages' in source ? source.draw(wanted, images, anySignal) : undefined;
      await Promise.allSettled([reading, drawing].map((work) => work?.catch(end)));
      signal.throwIfAborted();
      if (stop.signal.aborted && stop.signal.reason !== sliceEnded) throw stop.signal.reason;
      await Promise.all(saves);
    });
    return { pages, total };
  };
}

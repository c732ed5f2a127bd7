import { appError } from '#src/errors.ts';
import type { Recognition } from '#src/ports/documents.ts';
import type { CleanDocument } from '../clean-document.ts';
import type { ConversionLimits } from '../conversion-limits.ts';
import { layOutPages } from '../formats/pdf-layout.ts';
import { type PdfPage, recognizedPage } from '../formats/pdf-page.ts';
import type { DrawPages, PageRecognizer } from './page-recognizer.ts';

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

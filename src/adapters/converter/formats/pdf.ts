import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { appError } from '#src/errors.ts';
import type { CleanDocument } from '../clean-document.ts';
import type { ConversionLimits } from '../conversion-limits.ts';
import { runParserProcess } from '../parser-process.ts';
import { layOutPages } from './pdf-layout.ts';
import { type PdfPage, pdfDocumentMessage, pdfPageMessage } from './pdf-page.ts';

const childScript = join(import.meta.dirname, 'pdf_child.py');
/** Libraries and fonts are mapped, not used, so the address space is wider than the memory that the watch allows. */
const addressSpaceFactor = 2;
const endMarkWithinBytes = 4_096;
const notedEveryPages = 25;
/** Titles that programs write when nobody gave one. */
const emptyTitle = /^(?:\(?anonymous\)?|untitled.*|(?:microsoft word|powerpoint presentation)\b.*|.*\.\w{2,5}|\W*)$/i;

export type PdfSource = {
  path: string;
  python: string;
  toolsDir: string;
  workingDirectory: string;
  limits: ConversionLimits;
  signal: AbortSignal;
  onProgress: (note: string) => void;
};

/** PDF with a text layer, read by PDFium. Page n starts at `pageMap[n - 1]` of the body. */
export async function parsePdf(source: PdfSource): Promise<CleanDocument> {
  const { pages, title } = await readPdf(source);
  if (pages.every((page) => page.lines.length === 0) && pages.some((page) => page.images > 0)) {
    throw appError('unsupported_format', {
      detail: 'The PDF holds pictures of its pages only; scans cannot be read. A PDF with a text layer can.',
    });
  }
  return { ...(await layOutPages(pages)), title: emptyTitle.test(title) ? null : title };
}

/** What is drawn on each page, and the title that the file states; empty when it states none. */
export async function readPdf(source: PdfSource): Promise<{ pages: PdfPage[]; title: string }> {
  await checkEnd(source.path);
  const { limits } = source;
  const pages: PdfPage[] = [];
  let opened: { pageCount: number; title: string } | undefined;
  const addressSpaceBytes = limits.processMemoryBytes * addressSpaceFactor;
  await runParserProcess({
    ...source,
    command: source.python,
    args: ['-I', childScript, source.toolsDir, source.path, String(limits.pdfPages), String(addressSpaceBytes)],
    onMessage: (message) => {
      if (!opened) opened = pdfDocumentMessage.parse(message);
      else pages.push(pdfPageMessage.parse(message));
      if (pages.length % notedEveryPages === 0) source.onProgress(`page ${pages.length} of ${opened.pageCount}`);
    },
  });
  return { pages, title: opened?.title.trim() ?? '' };
}

/** PDFium repairs a file that was cut off and would give the first half of a document as if it were the whole. */
async function checkEnd(path: string): Promise<void> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const length = Math.min(size, endMarkWithinBytes);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    if (!buffer.includes('%%EOF')) {
      throw appError('corrupt_document', { detail: 'The PDF has no end: it was cut off.' });
    }
  } finally {
    await file.close();
  }
}

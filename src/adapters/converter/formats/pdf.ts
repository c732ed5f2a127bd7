import { open } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Writable } from 'node:stream';
import type { ParserSandbox } from '../../parser-sandbox.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { type CleanParsedDocument, discardDefaultTitle } from '../parsed-document.ts';
import type { ParserPool } from '../parser-pool.ts';
import { runParserProcess } from '../parser-process.ts';
import { pdfPagesToMarkdown } from './pdf-layout.ts';
import { type PdfPage, pdfDocumentMessageSchema, pdfPageMessageSchema } from './pdf-page.ts';

const childFolder = join(import.meta.dirname, 'pdf_child');
/** Share of the parser's memory limit that PDFium's data may use (RLIMIT_DATA); the rest is for program code. */
const shareOfData = 0.95;
const endMarkWithinBytes = 4_096;
/** Maximum padding after a PDF's end mark: mail programs and scanners pad PDF files, mostly to whole blocks. */
const paddingBytes = 1024 * 1024;
const notedEveryPages = 25;

type PdfProcessOptions = {
  sandbox: ParserSandbox;
  path: string;
  python: string;
  toolsDir: string;
  workingDirectory: string;
  limits: ConversionProcessLimits;
  signal: AbortSignal;
};

export type PdfReadOptions = PdfProcessOptions & {
  parsers: ParserPool;
  orgId: string;
  onProgress: (note: string) => void;
};

export async function pdfPagesToDocument({
  pages,
  title,
}: {
  pages: PdfPage[];
  title: string;
}): Promise<CleanParsedDocument> {
  return { ...(await pdfPagesToMarkdown(pages)), title: discardDefaultTitle(title) };
}

export async function readPdfPages(source: PdfReadOptions): Promise<{ pages: PdfPage[]; title: string }> {
  const hasEnd = await hasEndMark(source.path);
  const { limits } = source;
  const pages: PdfPage[] = [];
  let opened: { pageCount: number; title: string } | undefined;
  const onMessage = (message: unknown) => {
    if (!opened) opened = pdfDocumentMessageSchema.parse(message);
    else pages.push(pdfPageMessageSchema.parse(message));
    if (pages.length % notedEveryPages === 0) source.onProgress(`page ${pages.length} of ${opened.pageCount}`);
  };
  await source.parsers({
    ...source,
    kind: 'pdf',
    command: (folder) => childCommand(source, folder, 'text'),
    request: { maxPages: limits.pdfPages, hasEnd },
    begin: () => {
      pages.length = 0;
      opened = undefined;
      return onMessage;
    },
  });
  return { pages, title: opened?.title.trim() ?? '' };
}

/**
 * Writes pages (from 0) as consecutive PGM images to `output`; a page that cannot be drawn gives an empty image.
 * @param withoutText those of the pages whose text is left out, because it is known
 */
export async function renderPdfPageImages(
  source: PdfProcessOptions,
  pages: number[],
  output: Writable,
  withoutText: number[] = [],
): Promise<void> {
  await runParserProcess({
    ...source,
    ...childCommand(source, source.path, 'images', source.path, pages.join(','), withoutText.join(',')),
    output,
  });
}

function childCommand(
  source: PdfProcessOptions,
  readable: string,
  ...what: ['text'] | ['images', path: string, pages: string, withoutText: string]
): { command: string; args: string[] } {
  const dataBytes = Math.floor(source.limits.processMemoryBytes * shareOfData);
  const toolsDir = resolve(source.toolsDir);
  // -I ignores Python's environment variables and the working directory; -B writes no bytecode beside the scripts.
  const options = ['-I', '-B', join(childFolder, 'main.py')];
  const python = [source.python, ...options, toolsDir, String(dataBytes), ...what] as const;
  const [command, ...args] = source.sandbox.confine(python, { read: [childFolder, toolsDir, readable] });
  return { command, args };
}

/** Without an end mark, a PDF may be cut off: PDFium would repair it and return a part as if it were complete. */
async function hasEndMark(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const length = Math.min(size, endMarkWithinBytes + paddingBytes);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    const end = buffer.findLastIndex((byte) => byte !== 0 && byte !== 0x20 && byte !== 0x0a && byte !== 0x0d) + 1;
    return buffer.subarray(Math.max(0, end - endMarkWithinBytes), end).includes('%%EOF');
  } finally {
    await file.close();
  }
}

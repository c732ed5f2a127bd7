import { readFile, realpath, rm, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConvertedDocument, DocumentConverter, PdfRenderer } from '#src/ports/documents.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { createFairWorkQueue } from '../limits.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import { listArchiveAsMarkdown, readArchiveEntries } from './archive-entries.ts';
import { type ConversionProcessLimits, defaultConversionProcessLimits } from './conversion-limits.ts';
import { detectFormat } from './detect-format.ts';
import { type PdfReadOptions, pdfPagesToDocument, readPdfPages, renderPdfPageImages } from './formats/pdf.ts';
import { parseCode, parsePlainText } from './formats/plain-text.ts';
import { openImageForOcr } from './ocr/decoded-image.ts';
import {
  createOcrPageRecognizer,
  type DrawPages,
  type OcrProgress,
  readImageByOcr,
  readPdfPagesByOcr,
} from './ocr/read-pictures.ts';
import {
  type CleanParsedDocument,
  cleanParsedDocument,
  type DocumentParser,
  textTooLongError,
} from './parsed-document.ts';
import { createParserPool } from './parser-pool.ts';
import { sandboxedNodeCommand } from './parser-process.ts';

/** Part of the cache key of conversions. Increment it when a change of the converter changes documents' texts. */
const version = '7';

const childScript = join(import.meta.dirname, 'parser-child.ts');

/** Interval of `onProgress` calls, which continue while the parser sends nothing. */
const progressEveryMs = 1_000;

const inProcessParsers: Partial<Record<SourceFormat, DocumentParser>> = {
  text: parsePlainText,
  markdown: parsePlainText,
  code: parseCode,
};

/** A document's title is the first level-one heading within this many characters of its beginning. */
const titleSearchLength = 10_000;

const unreadablePdfCodes: ReadonlySet<string> = new Set(['corrupt_document', 'encrypted_document']);

const parserResult = z.object({
  body: z.string(),
  pageMap: z.array(z.number()).nullable(),
  title: z.string().nullable(),
});

type Source = Parameters<DocumentConverter['convert']>[0];

/**
 * Reads files of every supported format as Markdown. Untrusted input is parsed in sandboxed, limited child processes.
 * @param deps.toolsDir folder of the Python packages of scripts/requirements-runtime.txt
 * @param deps.renderer LibreOffice or Gotenberg; without it `.ppt` files are refused
 * @param deps.atOnce maximum concurrent parsers, by default one per core; OCR has its own limit
 */
export function createConverter(deps: {
  sandbox: ParserSandbox;
  toolsDir: string;
  tempDir: string;
  renderer?: PdfRenderer | null;
  python?: string;
  atOnce?: number;
  ocrLanguages?: readonly string[];
  limits?: Partial<ConversionProcessLimits>;
}): DocumentConverter {
  const limits: ConversionProcessLimits = { ...defaultConversionProcessLimits, ...deps.limits };
  const workingDirectory = deps.tempDir;
  const { atOnce = availableParallelism() } = deps;
  const limitParsers = createFairWorkQueue(atOnce, {
    maxRunningPerOwner: atOnce,
    maxRunningInCrowd: Math.max(1, atOnce - 1),
  });
  const { sandbox, ocrLanguages = ['eng'] } = deps;
  const recognize = createOcrPageRecognizer({ sandbox, languages: ocrLanguages, workingDirectory, limits });

  const parsers = createParserPool({ tempDir: deps.tempDir, maxIdle: atOnce });

  async function parseInChild({
    orgId,
    path,
    format,
    fileName,
    encoding,
    signal,
  }: Source): Promise<CleanParsedDocument> {
    let parsed: CleanParsedDocument | undefined;
    await parsers({
      orgId,
      kind: 'node',
      path,
      command: (folder) =>
        sandboxedNodeCommand({
          sandbox,
          script: childScript,
          args: [JSON.stringify(limits)],
          readable: [folder],
          limits,
        }),
      request: { format, fileName, encoding },
      begin: () => (message) => {
        parsed = parserResult.parse(message);
      },
      limits,
      signal,
    });
    if (!parsed) throw appError('corrupt_document', { detail: 'The parser ended without a result for the file.' });
    return parsed;
  }

  async function pdfAt(
    { orgId, path, signal }: Pick<Source, 'orgId' | 'path' | 'signal'>,
    onProgress: PdfReadOptions['onProgress'],
  ): Promise<PdfReadOptions> {
    const { toolsDir, python = 'python3' } = deps;
    const process = { sandbox, parsers, python, toolsDir, workingDirectory, limits };
    return { ...process, orgId, path: await realpath(path), signal, onProgress };
  }

  /**
   * If the rendered PDF cannot be read, the error blames the renderer (LibreOffice or Gotenberg) instead of the
   * uploaded file.
   */
  async function readRenderedPdf(
    source: Pick<Source, 'orgId' | 'path' | 'signal'>,
    onProgress: PdfReadOptions['onProgress'],
  ) {
    const pdf = await pdfAt(source, onProgress);
    try {
      return await limitParsers(source.orgId, () => readPdfPages(pdf));
    } catch (cause) {
      if (!(cause instanceof AppError && unreadablePdfCodes.has(cause.code))) throw cause;
      throw appError('converter_refused', { detail: 'LibreOffice or Gotenberg did not return a readable PDF.', cause });
    }
  }

  async function parsePpt(source: Source, onProgress: PdfReadOptions['onProgress']): Promise<CleanParsedDocument> {
    if (!deps.renderer) {
      throw appError('converter_unavailable', {
        detail:
          'Reading a .ppt file needs LibreOffice or Gotenberg, and neither is configured. Save the file as .pptx, or ' +
          'ask an operator to install LibreOffice or set GOTENBERG_URL.',
      });
    }
    const folder = await makeTemporaryFolder(deps.tempDir, 'printed');
    try {
      const pdfPath = join(folder, 'rendered.pdf');
      const { path, signal } = source;
      await deps.renderer.render({ path, format: 'ppt', pdfPath, signal });
      return await pdfPagesToDocument(await readRenderedPdf({ ...source, path: pdfPath }, onProgress));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async function parsePdf(
    source: Source,
    onProgress: PdfReadOptions['onProgress'],
  ): Promise<OcrProgress<CleanParsedDocument>> {
    const { signal, recognition } = source;
    const pdf = await pdfAt(source, onProgress);
    const { pages, title } = await limitParsers(source.orgId, () => readPdfPages(pdf));
    const reader = { recognize, recognition, signal, limits };
    const draw: DrawPages = (wanted, output, stop) => {
      const withText = wanted.filter((index) => pages[index]?.lines.length);
      return renderPdfPageImages({ ...pdf, signal: stop }, wanted, output, withText);
    };
    const { document, pagesLeft } = await readPdfPagesByOcr(pages, draw, reader);
    return document === null
      ? { document, pagesLeft }
      : completed(await pdfPagesToDocument({ pages: document, title }));
  }

  async function parse(source: Source, onProgress: (note: string) => void): Promise<OcrProgress<CleanParsedDocument>> {
    if (source.format === 'pdf') return parsePdf(source, onProgress);
    const { signal, recognition } = source;
    if (source.format === 'image') {
      const process = { sandbox, workingDirectory, limits, signal };
      const path = await realpath(source.path);
      const image = recognition && (await limitParsers(source.orgId, () => openImageForOcr(path, process)));
      return readImageByOcr(image ?? { path }, { recognize, recognition, signal });
    }
    return completed(await parseText(source, onProgress));
  }

  async function parseText(source: Source, onProgress: (note: string) => void): Promise<CleanParsedDocument> {
    if (source.format === 'ppt') return parsePpt(source, onProgress);
    if (source.format === 'archive') {
      if (source.recognition === undefined) {
        throw appError('unsupported_format', {
          detail: 'An archive is read only as an uploaded document. Upload the file, or read the files in it.',
        });
      }
      const body = await limitParsers(source.orgId, () =>
        listArchiveAsMarkdown(source.path, { limits, signal: source.signal }),
      );
      return cleanParsedDocument({ body, title: null });
    }
    const { size } = await stat(source.path);
    const parser = size <= limits.inProcessBytes ? inProcessParsers[source.format] : undefined;
    if (!parser) return limitParsers(source.orgId, () => parseInChild(source));
    return cleanParsedDocument(await parser({ ...source, bytes: await readFile(source.path) }));
  }

  return {
    // OCR languages are part of the cache key, because OCR with other languages reads different text from the same
    // picture.
    version: `${ocrLanguages}` === 'eng' ? version : `${version} ${ocrLanguages}`,
    detect: (input) => detectFormat(input, limits),
    readArchive: (path) => readArchiveEntries(path, limits),
    async convert(source) {
      source.signal.throwIfAborted();
      let note = `reading ${source.format}`;
      const progress = setInterval(() => source.onProgress?.(note), progressEveryMs);
      try {
        const { document, pagesLeft } = await parse(source, (latest) => {
          note = latest;
        });
        if (document === null) {
          return { body: '', pageMap: null, pageCount: null, sourceFormat: source.format, title: null, pagesLeft };
        }
        const { body, title, pageMap } = document;
        if (body.trim() === '') throw appError('empty_document', { detail: 'The file holds no text.' });
        if (body.length > limits.bodyLength) throw textTooLongError(limits);
        return {
          body,
          pageMap,
          pageCount: pageMap?.length ?? null,
          sourceFormat: source.format,
          title: title ?? (source.format === 'code' ? null : firstHeading(body)),
          pagesLeft,
        } satisfies ConvertedDocument;
      } finally {
        clearInterval(progress);
      }
    },
    async readPages(pdf) {
      const { pages } = await readRenderedPdf(pdf, () => undefined);
      return pages.map((page) => page.lines.map((line) => line.text).join('\n'));
    },
  };
}

function completed(document: CleanParsedDocument): OcrProgress<CleanParsedDocument> {
  return { document, pagesLeft: 0 };
}

function firstHeading(body: string): string | null {
  return /^# +(.+)$/m.exec(body.slice(0, titleSearchLength))?.[1]?.trim() ?? null;
}

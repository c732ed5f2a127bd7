import { readFile, realpath, rm, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConvertedDocument, Converter, PdfRenderer } from '#src/ports/documents.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { createFairQueue } from '../fair-queue.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import { type ConversionLimits, defaultConversionLimits } from './conversion-limits.ts';
import { detectFormat } from './detect-format.ts';
import { drawPdfPages, layOutPdf, type PdfSource, readPdf } from './formats/pdf.ts';
import { parseCode, parsePlainText } from './formats/plain-text.ts';
import { createPageRecognizer, type DrawPages, type Partly, readImage, readPicturePages } from './ocr/read-pictures.ts';
import { type CleanDocument, cleanDocument, type DocumentParser } from './parsed-document.ts';
import { parserCommand, runParserProcess } from './parser-process.ts';

/** Part of the key of stored conversions: raise it with every change that could give a file another body. */
const version = '4';

const childScript = join(import.meta.dirname, 'parser-child.ts');

/** A caller that reports life to somebody hears from a conversion this often, however quiet the parser is. */
const progressEveryMs = 1_000;

/** Nothing here is parsed but characters, so small files need no process of their own. */
const inProcessParsers: Partial<Record<SourceFormat, DocumentParser>> = {
  text: parsePlainText,
  markdown: parsePlainText,
  code: parseCode,
};

/** A heading further down is not the document's title. */
const titleWithin = 10_000;

/** Of a PDF, to whoever wants to see it. */
const unreadable: ReadonlySet<string> = new Set(['corrupt_document', 'encrypted_document']);

const cleanedDocument = z.object({
  body: z.string(),
  pageMap: z.array(z.number()).nullable(),
  title: z.string().nullable(),
});

type Source = Parameters<Converter['convert']>[0];

/**
 * Reads files of every supported format as Markdown. Whatever could be attacked by its input runs in a process that
 * may read only that file, and is killed at its limits.
 *
 * @param deps.toolsDir where the Python packages of scripts/requirements-runtime.txt are
 * @param deps.tempDir any folder that parsers may have as their working directory
 * @param deps.renderer prints what only an office program reads; without one that is refused
 * @param deps.python the Python 3 that runs PDFium: a name to look for in the usual places, or a path
 * @param deps.atOnce parsers of files; as many as cores when not given. The reading of pictures counts by itself
 * @param deps.ocrLanguages that pictures of text are read in; English when none are named
 */
export function createConverter(deps: {
  sandbox: ParserSandbox;
  toolsDir: string;
  tempDir: string;
  renderer?: PdfRenderer | null;
  python?: string;
  atOnce?: number;
  ocrLanguages?: readonly string[];
  limits?: Partial<ConversionLimits>;
}): Converter {
  const limits: ConversionLimits = { ...defaultConversionLimits, ...deps.limits };
  const workingDirectory = deps.tempDir;
  // A parser may take a core and all of its memory limit; more at once would only be more memory.
  const { atOnce = availableParallelism() } = deps;
  const inTurn = createFairQueue(atOnce, { maxRunningPerOwner: atOnce, maxRunningInCrowd: Math.max(1, atOnce - 1) });
  const { sandbox, ocrLanguages = ['eng'] } = deps;
  const recognize = createPageRecognizer({ sandbox, languages: ocrLanguages, workingDirectory, limits });

  async function parseInChild(source: Source): Promise<CleanDocument> {
    let parsed: CleanDocument | undefined;
    const path = await realpath(source.path);
    const { format, fileName, encoding } = source;
    await runParserProcess({
      ...parserCommand({
        sandbox,
        script: childScript,
        args: [format, path, fileName, JSON.stringify(limits), ...(encoding === undefined ? [] : [encoding])],
        readable: [path],
        limits,
      }),
      workingDirectory,
      limits,
      signal: source.signal,
      onMessage: (message) => {
        parsed = cleanedDocument.parse(message);
      },
    });
    if (!parsed) throw appError('corrupt_document', { detail: 'Reading the file gave nothing.' });
    return parsed;
  }

  async function pdfAt(path: string, signal: AbortSignal, onProgress: PdfSource['onProgress']): Promise<PdfSource> {
    const { toolsDir, python = 'python3' } = deps;
    return { sandbox, path: await realpath(path), signal, python, toolsDir, workingDirectory, limits, onProgress };
  }

  /** What an office program has printed; that it cannot be read is the fault of the program. */
  async function readPrinted(
    { orgId, path, signal }: Pick<Source, 'orgId' | 'path' | 'signal'>,
    onProgress: PdfSource['onProgress'],
  ) {
    const pdf = await pdfAt(path, signal, onProgress);
    try {
      return await inTurn(orgId, () => readPdf(pdf));
    } catch (cause) {
      if (!(cause instanceof AppError && unreadable.has(cause.code))) throw cause;
      throw appError('converter_refused', { detail: 'The office program gave what is no readable PDF.', cause });
    }
  }

  /** An old presentation as it would be printed: a page for each slide. */
  async function parsePrinted(source: Source, onProgress: PdfSource['onProgress']): Promise<CleanDocument> {
    if (!deps.renderer) {
      throw appError('converter_unavailable', {
        detail:
          'A .ppt file is read by an office program, and there is none here. An operator can install LibreOffice or ' +
          'set GOTENBERG_URL; you can save the file as .pptx.',
      });
    }
    const folder = await makeTemporaryFolder(deps.tempDir, 'printed');
    try {
      const pdfPath = join(folder, 'printed.pdf');
      const { path, signal } = source;
      await deps.renderer.render({ path, format: 'ppt', pdfPath, signal });
      return await layOutPdf(await readPrinted({ ...source, path: pdfPath }, onProgress));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async function parsePdf(source: Source, onProgress: PdfSource['onProgress']): Promise<Partly<CleanDocument>> {
    const { signal, recognition } = source;
    const pdf = await pdfAt(source.path, signal, onProgress);
    const { pages, title } = await inTurn(source.orgId, () => readPdf(pdf));
    const reader = { recognize, recognition, signal, limits };
    const draw: DrawPages = (wanted, output, stop) => drawPdfPages({ ...pdf, signal: stop }, wanted, output);
    const { document, pagesLeft } = await readPicturePages(pages, draw, reader);
    return document === null ? { document, pagesLeft } : whole(await layOutPdf({ pages: document, title }));
  }

  async function parse(source: Source, onProgress: (note: string) => void): Promise<Partly<CleanDocument>> {
    if (source.format === 'pdf') return parsePdf(source, onProgress);
    const { signal, recognition } = source;
    if (source.format === 'image') return readImage(await realpath(source.path), { recognize, recognition, signal });
    return whole(await parseText(source, onProgress));
  }

  async function parseText(source: Source, onProgress: (note: string) => void): Promise<CleanDocument> {
    if (source.format === 'ppt') return parsePrinted(source, onProgress);
    const { size } = await stat(source.path);
    const parser = size <= limits.inProcessBytes ? inProcessParsers[source.format] : undefined;
    if (!parser) return inTurn(source.orgId, () => parseInChild(source));
    return cleanDocument(await parser({ ...source, bytes: await readFile(source.path) }));
  }

  return {
    // The same picture is another text in other languages.
    version: `${ocrLanguages}` === 'eng' ? version : `${version} ${ocrLanguages}`,
    detect: (input) => detectFormat(input, limits),
    async convert(source) {
      source.signal.throwIfAborted();
      let note = `reading ${source.format}`;
      const progress = setInterval(() => source.onProgress?.(note), progressEveryMs);
      try {
        const { document, pagesLeft } = await parse(source, (news) => {
          note = news;
        });
        if (document === null) {
          return { body: '', pageMap: null, pageCount: null, sourceFormat: source.format, title: null, pagesLeft };
        }
        const { body, title, pageMap } = document;
        if (body.trim() === '') throw appError('empty_document', { detail: 'The file holds no text.' });
        if (body.length > limits.bodyLength) throw appError('too_large', { detail: 'The file holds too much text.' });
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
      const { pages } = await readPrinted(pdf, () => undefined);
      return pages.map((page) => page.lines.map((line) => line.text).join('\n'));
    },
  };
}

function whole(document: CleanDocument): Partly<CleanDocument> {
  return { document, pagesLeft: 0 };
}

function firstHeading(body: string): string | null {
  return /^# +(.+)$/m.exec(body.slice(0, titleWithin))?.[1]?.trim() ?? null;
}

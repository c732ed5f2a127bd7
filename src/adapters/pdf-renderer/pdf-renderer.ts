import { createWriteStream, openAsBlob } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FormData, fetch, type Response } from 'undici';
import { limitStreamSize, readResponseBodyStart } from '#src/adapters/providers.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/documents.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import {
  createLibreOfficeRenderer,
  defaultPdfRenderLimits,
  findLibreOffice,
  type PdfRenderLimits,
  pdfTooLargeMessage,
} from './libreoffice.ts';

/**
 * Returns null for the choice `off`. If the `path` of LibreOffice is null, the usual installation folders are searched.
 */
export function createPdfRenderer(
  choice: { kind: 'gotenberg'; url: string } | { kind: 'libreoffice'; path: string | null } | { kind: 'off' },
  { sandbox, tempDir }: { sandbox: ParserSandbox; tempDir: string },
): PdfRenderer | null {
  if (choice.kind === 'off') return null;
  if (choice.kind === 'gotenberg') return createGotenbergRenderer(choice);
  const path = choice.path ?? findLibreOffice();
  return path === null ? null : createLibreOfficeRenderer({ path, sandbox, tempDir });
}

const version = 'gotenberg 1';

const loggedErrorBytes = 500;
const pdfSignature = '%PDF-';

/** Renders PDFs on a Gotenberg server (`POST /forms/libreoffice/convert`). Files and PDFs are streamed. */
export function createGotenbergRenderer(deps: { url: string; limits?: Partial<PdfRenderLimits> }): PdfRenderer {
  const limits: PdfRenderLimits = { ...defaultPdfRenderLimits, ...deps.limits };
  const address = `${deps.url.replace(/\/+$/, '')}/forms/libreoffice/convert`;

  return {
    version,
    async render({ path, format, pdfPath, signal }) {
      signal.throwIfAborted();
      const wall = AbortSignal.timeout(limits.wallMs);
      const form = new FormData();
      // Gotenberg detects the format by the file extension; the real file name is not sent.
      form.append('files', await openAsBlob(path), `document.${format}`);
      try {
        // Uses undici's `fetch`, because in that of Node 24 an abort during the response body causes an unhandled
        // rejection, which ends the process.
        const response = await fetch(address, {
          method: 'POST',
          body: form,
          redirect: 'manual',
          signal: AbortSignal.any([signal, wall]),
        });
        if (!response.ok || response.body === null) throw await errorOf(response);
        await pipeline(
          Readable.fromWeb(response.body),
          limitStreamSize(limits.pdfBytes, () => appError('too_large', { detail: pdfTooLargeMessage })),
          createWriteStream(pdfPath, { flags: 'wx' }),
        );
        if (!(await isPdf(pdfPath))) throw wrongAddress('Gotenberg did not return a PDF');
      } catch (error) {
        await rm(pdfPath, { force: true });
        signal.throwIfAborted();
        if (wall.aborted) throw timedOut(limits.wallMs);
        throw isNetworkError(error) ? unavailable(error) : error;
      }
    },
  };
}

async function errorOf(response: Response): Promise<AppError> {
  const { status } = response;
  const text =
    response.body === null ? '' : (await readResponseBodyStart(response.body, loggedErrorBytes)).toString('utf8');
  const cause = new Error(`Gotenberg answered ${status}: ${text}`);
  if (status === 400)
    return appError('corrupt_document', { detail: 'Gotenberg cannot open the file or convert it to PDF.', cause });
  if (status === 413) return appError('too_large', { detail: "The file exceeds Gotenberg's size limit.", cause });
  if (status === 429 || status >= 500) return unavailable(cause);
  return wrongAddress(`Gotenberg answered ${status}`, cause);
}

function wrongAddress(problem: string, cause?: unknown): AppError {
  return appError('converter_refused', { detail: `${problem}; check the setting GOTENBERG_URL.`, cause });
}

async function isPdf(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read({ buffer: Buffer.alloc(pdfSignature.length) });
    return buffer.toString('latin1') === pdfSignature;
  } finally {
    await file.close();
  }
}

function timedOut(wallMs: number): AppError {
  const seconds = Math.round(wallMs / 1_000);
  return appError('conversion_timeout', {
    detail: `Gotenberg did not convert the file to PDF within ${seconds} seconds.`,
  });
}

function unavailable(cause: unknown): AppError {
  return appError('service_unavailable', { detail: 'Gotenberg is not reachable or overloaded.', cause });
}

function isNetworkError(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    (error instanceof Error &&
      'code' in error &&
      /^(?:UND_ERR|ECONN)/.test(String(error.code)) &&
      !('errorClass' in error))
  );
}

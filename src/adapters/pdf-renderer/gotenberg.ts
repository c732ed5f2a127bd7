import { createWriteStream, openAsBlob } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FormData, fetch, type Response } from 'undici';
import { atMost, readBeginning } from '#src/adapters/bounded-body.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/documents.ts';
import { defaultRenderLimits, type RenderLimits } from './render-limits.ts';

const version = 'gotenberg 1';

/** Bytes of a refusal, for the log. */
const keptAnswer = 500;
const pdfSignature = '%PDF-';

/** A Gotenberg server: `POST /forms/libreoffice/convert`, both ways as a stream. */
export function createGotenberg(deps: { url: string; limits?: Partial<RenderLimits> }): PdfRenderer {
  const limits: RenderLimits = { ...defaultRenderLimits, ...deps.limits };
  const address = `${deps.url.replace(/\/+$/, '')}/forms/libreoffice/convert`;

  return {
    version,
    async render({ path, format, pdfPath, signal }) {
      signal.throwIfAborted();
      const wall = AbortSignal.timeout(limits.wallMs);
      const form = new FormData();
      // The name tells it the format, and is all that it gets to know of the document's.
      form.append('files', await openAsBlob(path), `document.${format}`);
      try {
        // The package's own `fetch`: in the one that Node 24 brings, an abort while the body is read rejects a promise that
        // belongs to no caller, which ends the process.
        const response = await fetch(address, {
          method: 'POST',
          body: form,
          redirect: 'manual',
          signal: AbortSignal.any([signal, wall]),
        });
        if (!response.ok || response.body === null) throw await refusalOf(response);
        await pipeline(
          Readable.fromWeb(response.body),
          atMost(limits.pdfBytes, () => appError('too_large', { detail: 'The file makes too large a PDF.' })),
          createWriteStream(pdfPath, { flags: 'wx' }),
        );
        if (!(await isPdf(pdfPath))) throw refused('Gotenberg answers with something else than a PDF');
      } catch (error) {
        await rm(pdfPath, { force: true });
        signal.throwIfAborted();
        if (wall.aborted) throw timedOut(limits.wallMs);
        throw isOfNetwork(error) ? away(error) : error;
      }
    },
  };
}

async function refusalOf(response: Response): Promise<AppError> {
  const { status } = response;
  const text = response.body === null ? '' : (await readBeginning(response.body, keptAnswer)).toString('utf8');
  const cause = new Error(`Gotenberg answered ${status}: ${text}`);
  if (status === 400)
    return appError('corrupt_document', { detail: 'Gotenberg cannot open the file, or not print it.', cause });
  if (status === 413) return appError('too_large', { detail: 'The file is larger than Gotenberg takes.', cause });
  if (status === 429 || status >= 500) return away(cause);
  return refused(`Gotenberg answers ${status}`, cause);
}

function refused(what: string, cause?: unknown): AppError {
  return appError('converter_refused', { detail: `${what}: is GOTENBERG_URL its address?`, cause });
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
  return appError('conversion_timeout', { detail: `Gotenberg did not print the file within ${seconds} seconds.` });
}

function away(cause: unknown): AppError {
  return appError('service_unavailable', { detail: 'Gotenberg is not reachable or overloaded.', cause });
}

/** What `fetch` throws for a connection that fails, before the answer or within it. */
function isOfNetwork(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    (error instanceof Error &&
      'code' in error &&
      /^(?:UND_ERR|ECONN)/.test(String(error.code)) &&
      !('errorClass' in error))
  );
}

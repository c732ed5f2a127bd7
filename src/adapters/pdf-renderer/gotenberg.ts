import { createWriteStream, openAsBlob } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FormData, fetch, type Response } from 'undici';
import { type AppError, appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/pdf-renderer.ts';
import { defaultRenderLimits, type RenderLimits } from './render-limits.ts';

const version = 'gotenberg 1';

/** Of what a refusal says, for the log. */
const keptAnswer = 500;

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
        const response = await fetch(address, { method: 'POST', body: form, signal: AbortSignal.any([signal, wall]) });
        if (!response.ok || response.body === null) throw await refusalOf(response);
        await pipeline(
          Readable.fromWeb(response.body),
          atMost(limits.pdfBytes),
          createWriteStream(pdfPath, { flags: 'wx' }),
        );
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
  const text = (await response.text().catch(() => '')).slice(0, keptAnswer);
  const cause = new Error(`Gotenberg answered ${status}: ${text}`);
  if (status === 400)
    return appError('corrupt_document', { detail: 'Gotenberg cannot open the file, or not print it.', cause });
  if (status === 413) return appError('too_large', { detail: 'The file is larger than Gotenberg takes.', cause });
  if (status === 429 || status >= 500) return away(cause);
  const detail = `Gotenberg answers ${status}: is GOTENBERG_URL its address?`;
  return appError('converter_refused', { detail, cause });
}

function atMost(bytes: number): Transform {
  let received = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      received += chunk.length;
      if (received > bytes) done(appError('too_large', { detail: 'The file makes too large a PDF.' }));
      else done(null, chunk);
    },
  });
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

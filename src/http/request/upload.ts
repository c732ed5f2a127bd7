import type { IncomingMessage } from 'node:http';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import busboy, { type FileInfo } from 'busboy';
import { isStorableInPostgres } from '#src/domain/text/plain-text.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { HttpRoute, IncomingUploadFile } from '../routing/route.ts';

const limits = { files: 1, fields: 64, parts: 66, fieldSize: 64 * 1024, fieldNameSize: 100 };
const maxBytesWithoutFile = 1024 * 1024;
const maxFileNameLength = 255;
const maxSmallBodyBytes = 1024 * 1024;
/**
 * Minimum upload rate, so that a stalled upload does not hold its slot: an average of 1 KiB/s, a fifth of a GPRS line,
 * over each window, so that short pauses are allowed.
 */
const defaultMinimumRate = { windowMs: 60_000, windowBytes: 60 * 1024 };
type MinimumUploadRate = typeof defaultMinimumRate;

type FormTarget<Stored> = {
  store: (upload: IncomingUploadFile) => Promise<Stored>;
  discard: (stored: Stored) => Promise<void>;
  isFileOptional?: boolean;
};

type ReceivedForm<Stored> = { fields: Record<string, unknown>; file: Stored | undefined };

/**
 * Reads a form and streams its part `file` to `store`. If the form turns out to be invalid, calls `discard` with the
 * stored file. Throws `request_timeout` if less than `windowBytes` arrive in `windowMs`.
 * @param target null for a form without a file
 */
export async function receiveForm<Stored>(
  req: IncomingMessage,
  target: FormTarget<Stored> | null,
  minimumRate: MinimumUploadRate = defaultMinimumRate,
): Promise<ReceivedForm<Stored>> {
  const parser = openParser(req);
  const fields = new Map<string, string[]>();
  const refusal = Promise.withResolvers<void>();
  let failure: unknown;
  let storing: Promise<Stored | undefined> = Promise.resolve(undefined);
  let isInFile = false;
  let bytesWithoutFile = 0;
  const fail = (error: unknown) => {
    failure ??= error;
    // Rejects the form without waiting for the rest of the body. If the connection was lost, waits for the parser,
    // which reports the lost connection as the cause.
    if (!req.destroyed) refusal.resolve();
  };

  parser.on('field', (name, value, info) => {
    if (info.nameTruncated || info.valueTruncated) {
      fail(appError('payload_too_large', { detail: `A form field may have at most ${limits.fieldSize} bytes.` }));
    }
    if (!isStorableInPostgres(name) || !isStorableInPostgres(value))
      fail(fieldError(name, 'must not contain NUL or unpaired surrogates', 'not_text'));
    fields.set(name, [...(fields.get(name) ?? []), value]);
  });
  parser.on('file', (name, part, info) => {
    // Ignored file parts need an `error` listener too: an unhandled `error` event would end the process.
    part.on('error', () => {});
    if (target === null || name !== 'file') {
      const message = target === null ? 'This route accepts no file' : 'Only the part "file" may be a file';
      fail(fieldError(name, message, 'unknown_field'));
    }
    if (target === null || failure !== undefined) {
      part.resume();
      return;
    }
    isInFile = true;
    part.once('close', () => {
      isInFile = false;
    });
    const { content, ...described } = describeFile(info, part);
    storing = target.store({ ...described, content, announcedBytes: announcedBytesOf(req) }).catch((error: unknown) => {
      fail(error);
      content.destroy();
      return undefined;
    });
  });
  parser.on('filesLimit', () => fail(fieldError('file', 'Only one file is accepted', 'too_many_files')));
  for (const limit of ['fieldsLimit', 'partsLimit'] as const) {
    parser.on(limit, () => fail(appError('payload_too_large', { detail: 'The form has too many parts.' })));
  }
  req.on('data', (piece: Buffer) => {
    if (isInFile) return;
    bytesWithoutFile += piece.length;
    if (bytesWithoutFile > maxBytesWithoutFile) {
      fail(
        appError('payload_too_large', {
          detail: `Apart from its file, a form may have at most ${maxBytesWithoutFile} bytes.`,
        }),
      );
    }
  });

  const parsed = finished(parser).then(
    () => undefined,
    (error: Error) => error,
  );
  finished(req, { writable: false }).catch((error: Error) => parser.destroy(error));
  // `pipe` is used because `pipeline` would destroy the connection before the client can read the error.
  req.pipe(parser);
  const stopMeasuring = enforceMinimumRate(req, parser, minimumRate, fail);
  const parseError = await Promise.race([parsed, refusal.promise]).finally(stopMeasuring);
  if (parseError instanceof Error) {
    failure = appError('malformed_request', { detail: 'The form is malformed or incomplete.', cause: parseError });
  }
  req.unpipe(parser);
  parser.on('error', () => {}).destroy();
  const stored = await storing;
  if (stored === undefined && target !== null && !target.isFileOptional)
    fail(fieldError('file', 'A file is required', 'required'));
  if (failure !== undefined) {
    if (stored !== undefined) await target?.discard(stored);
    throw failure;
  }
  return { fields: singleValues(fields), file: stored };
}

function announcedBytesOf(req: IncomingMessage): number {
  return Math.max(0, Number(req.headers['content-length'] ?? 0) - maxBytesWithoutFile);
}

function enforceMinimumRate(
  req: IncomingMessage,
  parser: Writable,
  { windowMs, windowBytes }: MinimumUploadRate,
  fail: (error: unknown) => void,
): () => void {
  let receivedBytes = 0;
  let wasStoreSlow = false;
  req.on('data', (piece: Buffer) => {
    receivedBytes += piece.length;
    wasStoreSlow ||= parser.writableNeedDrain;
  });
  const timer = setInterval(() => {
    // Does not abort uploads that were slow only because the store was slow.
    if (receivedBytes < windowBytes && !wasStoreSlow && !req.complete) {
      const detail = `A body has to arrive with at least ${windowBytes} bytes in ${windowMs / 1_000} seconds.`;
      fail(appError('request_timeout', { detail }));
    }
    receivedBytes = 0;
    wasStoreSlow = parser.writableNeedDrain;
  }, windowMs);
  return () => clearInterval(timer);
}

/** Whether a request counts as an upload for limits: a form with a file, or a large JSON body. */
export function isUploadRequest({ body, bodyLimitBytes = 0 }: HttpRoute, req: IncomingMessage): boolean {
  const takesFile = body !== undefined && 'kind' in body && body.kind !== 'form_or_json';
  return (takesFile && isFormRequest(req)) || bodyLimitBytes > maxSmallBodyBytes;
}

export function isFormRequest(req: IncomingMessage): boolean {
  return /^multipart\/form-data\s*;/i.test(req.headers['content-type'] ?? '');
}

function openParser(req: IncomingMessage) {
  if (!isFormRequest(req)) {
    throw appError('unsupported_media_type', { detail: 'The body must have the type multipart/form-data.' });
  }
  try {
    return busboy({ headers: req.headers, limits, defParamCharset: 'utf8' });
  } catch (error) {
    throw appError('malformed_request', { detail: 'The Content-Type of the form has no boundary.', cause: error });
  }
}

function describeFile(info: FileInfo, part: Readable): Omit<IncomingUploadFile, 'announcedBytes'> {
  // The store gets a stream of its own: if it destroys that stream, the form parser still continues.
  const content = new PassThrough();
  part.on('error', (error) => content.destroy(error));
  content.on('error', () => {});
  part.pipe(content);
  const given = (info.filename ?? '')
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, '')
    .trim();
  const fileName = [...given].slice(0, maxFileNameLength).join('');
  return { fileName: fileName || 'file', mediaType: info.mimeType, content };
}

function singleValues(fields: Map<string, string[]>): Record<string, unknown> {
  return Object.fromEntries(
    [...fields].flatMap(([name, values]) => {
      const value = values.length === 1 ? values[0] : values;
      return value === '' ? [] : [[name, value]];
    }),
  );
}

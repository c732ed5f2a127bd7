import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import { attachmentDisposition } from '#src/domain/text/content-disposition.ts';
import { appError } from '#src/errors.ts';
import { type ByteRange, entityTag, namesTag, parseByteRange } from '../request/headers.ts';
import type { AnswerHeaders, DownloadAnswer, FileContent, JsonAnswer } from './answers.ts';

/** Sends JSON. A GET gets an `ETag`, and 304 if the client has the current version. */
export function sendJson(
  req: Request,
  res: Response,
  { status, data, headers, version }: Omit<JsonAnswer, 'kind'>,
): void {
  const body = JSON.stringify(data);
  res.status(status).set('Content-Type', 'application/json; charset=utf-8');
  if (status === 200 && (req.method === 'GET' || req.method === 'HEAD')) {
    const tag = entityTag(body, version);
    // Clients must revalidate, because a caller's permissions can change at any time.
    res.set({ ETag: tag, 'Cache-Control': 'private, no-cache' }).set(headers);
    const known = req.get('if-none-match');
    if (known !== undefined && namesTag(known, tag)) {
      res.removeHeader('Content-Type');
      res.status(304).end();
      return;
    }
  } else {
    res.set('Cache-Control', 'no-store').set(headers);
  }
  res.end(body);
}

export function sendProblem(res: Response, status: number, problem: unknown, headers: AnswerHeaders): void {
  res.status(status).set('Content-Type', 'application/problem+json; charset=utf-8').set(headers);
  res.end(JSON.stringify(problem));
}

export function sendEmpty(res: Response, status: number, headers: AnswerHeaders): void {
  res.status(status).set({ 'Cache-Control': 'no-store', ...headers });
  res.end();
}

/** Sends a download or a range of it. */
export async function sendFile(req: Request, res: Response, content: FileContent): Promise<void> {
  const tag = `"${content.etag}"`;
  const known = req.get('if-none-match');
  if (known !== undefined && namesTag(known, tag)) {
    res.status(304).set('ETag', tag).end();
    return;
  }
  const range = requestedRange(req, tag, content.sizeBytes);
  if (range === null) {
    res.set('Content-Range', `bytes */${content.sizeBytes}`);
    throw appError('range_not_satisfiable');
  }
  // Opened before any header is set, so that a missing file becomes an error response.
  const body = req.method === 'HEAD' ? undefined : await content.open(range);
  res.set({ ETag: tag, 'Accept-Ranges': 'bytes', 'Cache-Control': 'private, no-cache' });
  describeFile(res, content);
  if (range === undefined) {
    res.status(200).set('Content-Length', String(content.sizeBytes));
  } else {
    res.status(206).set({
      'Content-Length': String(range.end - range.start + 1),
      'Content-Range': `bytes ${range.start}-${range.end}/${content.sizeBytes}`,
    });
  }
  if (body === undefined) res.end();
  else await pipeline(body, res);
}

/** Sends a generated download with backpressure. */
export async function sendDownload(
  req: Request,
  res: Response,
  { content, ...described }: DownloadAnswer,
): Promise<void> {
  const pieces = content[Symbol.asyncIterator]();
  // Generated before any header is set, so that an early error becomes an error response.
  const first = await pieces.next();
  async function* all(): AsyncGenerator<string> {
    for (let piece = first; !piece.done; piece = await pieces.next()) yield piece.value;
  }
  res.status(200).set('Cache-Control', 'no-store').set(described.headers);
  describeFile(res, described);
  if (req.method === 'HEAD') {
    await pieces.return?.();
    res.end();
    return;
  }
  // The generator must be closed in every case.
  await pipeline(Readable.from(all(), { highWaterMark: 1 }), res).finally(() => pieces.return?.());
}

/** Prevents a user's file from running as a page of this origin. */
function describeFile(res: Response, { fileName, mediaType }: Pick<FileContent, 'fileName' | 'mediaType'>): void {
  res.set({
    'Content-Disposition': attachmentDisposition(fileName),
    'Content-Security-Policy': "sandbox; default-src 'none'",
  });
  // Not with `set`, which would add a charset; that of a user's file is unknown.
  res.setHeader('Content-Type', mediaType);
}

function requestedRange(req: Request, tag: string, sizeBytes: number): ByteRange | null | undefined {
  const condition = req.get('if-range');
  if (condition !== undefined && condition !== tag) return undefined;
  return parseByteRange(req.get('range'), sizeBytes);
}

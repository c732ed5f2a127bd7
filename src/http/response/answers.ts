import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import type { Logger } from 'pino';
import { attachmentContentDisposition, inlineContentDisposition } from '#src/domain/text/content-disposition.ts';
import { appError } from '#src/errors.ts';
import type { ServerSentEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import { type ByteRange, createETag, matchesETag, parseByteRange } from '../request/headers.ts';
import type { AppResponse } from '../server/middleware.ts';
import { type EventStreamRegistry, eventStreamHeaders, type ServerSentEventSink } from './event-streams.ts';
import { sendProblem, toAppError } from './problem.ts';

export type { ServerSentEventSink } from './event-streams.ts';

type AnswerHeaders = Record<string, string>;

export type JsonAnswer<Status extends number = number, Data = unknown> = {
  kind: 'json';
  status: Status;
  data: Data;
  headers: AnswerHeaders;
  version?: number;
};

export type EmptyAnswer<Status extends number = number> = { kind: 'empty'; status: Status; headers: AnswerHeaders };

export type EventStreamAnswer = {
  kind: 'events';
  status: 200;
  run: (events: ServerSentEventSink) => Promise<void>;
  /** A watch only reports events, such as the progress of a job; a shutdown closes it immediately. */
  isWatch: boolean;
  headers: AnswerHeaders;
};

type FileContent = {
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  etag: string;
  /** The service has made the content itself, so that a browser may show it at a signed URL. */
  isShown?: true;
  open: (range?: { start: number; end: number }) => Promise<Readable>;
};

export type FileAnswer = { kind: 'file'; status: 200; content: FileContent; headers: AnswerHeaders };

export type DownloadAnswer = {
  kind: 'download';
  status: 200;
  fileName: string;
  mediaType: string;
  content: AsyncIterable<string>;
  headers: AnswerHeaders;
};

export type HttpAnswer = JsonAnswer | EmptyAnswer | EventStreamAnswer | FileAnswer | DownloadAnswer;

export function okAnswer<Data>(data: Data, headers: AnswerHeaders = {}): JsonAnswer<200, Data> {
  return { kind: 'json', status: 200, data, headers };
}

/** Responds to a GET of a resource that supports `If-Match`. Read the version before or together with the data. */
export function okAnswerWithVersion<Data>(data: Data, { version }: { version: number }): JsonAnswer<200, Data> {
  return { ...okAnswer(data), version };
}

export function createdAnswer<Data>(data: Data, headers: AnswerHeaders = {}): JsonAnswer<201, Data> {
  return { kind: 'json', status: 201, data, headers };
}

export function jsonAnswer<Status extends number, Data>(status: Status, data: Data): JsonAnswer<Status, Data> {
  return { kind: 'json', status, data, headers: {} };
}

export function noContentAnswer(): EmptyAnswer<204> {
  return { kind: 'empty', status: 204, headers: {} };
}

export function foundRedirectAnswer(location: string): EmptyAnswer<302> {
  return { kind: 'empty', status: 302, headers: { Location: location } };
}

export function seeOtherRedirectAnswer(location: string): EmptyAnswer<303> {
  return { kind: 'empty', status: 303, headers: { Location: location } };
}

/**
 * Responds with Server-Sent Events until `run` ends. If `run` throws an unexpected error, the stream ends with an
 * `error` event.
 */
export function eventStreamAnswer(
  run: (events: ServerSentEventSink) => Promise<void>,
  options: { headers?: AnswerHeaders; isWatch?: boolean } = {},
): EventStreamAnswer {
  return { kind: 'events', status: 200, run, isWatch: options.isWatch ?? false, headers: options.headers ?? {} };
}

/** Responds with a file that is generated while it is sent. If the generator fails, the connection is closed. */
export function downloadAnswer(made: Pick<DownloadAnswer, 'fileName' | 'mediaType' | 'content'>): DownloadAnswer {
  return { kind: 'download', status: 200, ...made, headers: {} };
}

export function fileAnswer(content: FileContent): FileAnswer {
  return { kind: 'file', status: 200, content, headers: {} };
}

/** A file that is made for the request and small enough for memory. */
export function textFileAnswer({
  text,
  ...described
}: {
  fileName: string;
  mediaType: string;
  text: string;
}): FileAnswer {
  const bytes = Buffer.from(text);
  return fileAnswer({
    ...described,
    sizeBytes: bytes.length,
    etag: createHash('sha256').update(bytes).digest('hex'),
    isShown: true,
    open: async (range) => Readable.from([range === undefined ? bytes : bytes.subarray(range.start, range.end + 1)]),
  });
}

/** A completely sent event stream that stays open until its events are stored for an `Idempotency-Key`. */
type SentStream = { end: () => void };

type AnswerSender = {
  send(req: Request, res: AppResponse, answer: HttpAnswer): Promise<void>;
  sendAgain(req: Request, res: AppResponse, stored: StoredResponse): Promise<void>;
  stream(res: AppResponse, answer: EventStreamAnswer, onEvent?: (event: ServerSentEvent) => void): Promise<SentStream>;
};

export function createAnswerSender(deps: {
  streams: EventStreamRegistry;
  logger: Logger;
  isOutage: (error: unknown) => boolean;
}): AnswerSender {
  const { streams, logger, isOutage } = deps;

  const answerSender: AnswerSender = {
    async send(req, res, answer) {
      switch (answer.kind) {
        case 'json':
          return sendJson(req, res, answer);
        case 'empty':
          return sendEmpty(res, answer.status, answer.headers);
        case 'file':
          res.set(answer.headers);
          return sendFile(req, res, answer.content);
        case 'download':
          return sendDownload(req, res, answer);
        case 'events':
          (await answerSender.stream(res, answer)).end();
      }
    },

    async sendAgain(req, res, { status, headers, body }) {
      switch (body.kind) {
        case 'json':
          return sendJson(req, res, { status, data: body.data, headers });
        case 'empty':
          return sendEmpty(res, status, headers);
        case 'problem':
          return sendProblem(res, status, body.data, headers);
        case 'events': {
          const replay = async (events: ServerSentEventSink) => {
            for (const event of body.events) await events.send(event);
          };
          (await answerSender.stream(res, eventStreamAnswer(replay, { headers }))).end();
        }
      }
    },

    async stream(res, { run, headers, isWatch }, onEvent) {
      res.status(200).set({ ...eventStreamHeaders, ...headers });
      const open = streams.open(res, { isWatch, sessionId: res.locals.sessionId });
      const send = (event: ServerSentEvent) => {
        onEvent?.(event);
        return open.send(event);
      };
      try {
        await run({ send, closed: open.closed });
      } catch (thrown) {
        const { code, message } = toAppError(thrown, isOutage);
        logger.error({ msg: 'stream failed', requestId: res.locals.requestId, code, err: thrown });
        await send({ event: 'error', data: { detail: message, code } });
      }
      return { end: () => open.end() };
    },
  };
  return answerSender;
}

function sendJson(req: Request, res: Response, { status, data, headers, version }: Omit<JsonAnswer, 'kind'>): void {
  const body = JSON.stringify(data);
  // `setHeader`, because Express's `set` parses media types.
  res.status(status).setHeader('Content-Type', 'application/json; charset=utf-8');
  if (status === 200 && (req.method === 'GET' || req.method === 'HEAD')) {
    const tag = createETag(body, version);
    // Clients must revalidate, because a caller's permissions can change at any time.
    res.setHeader('ETag', tag).setHeader('Cache-Control', 'private, no-cache');
    res.set(headers);
    const known = req.get('if-none-match');
    if (known !== undefined && matchesETag(known, tag)) {
      res.removeHeader('Content-Type');
      res.status(304).end();
      return;
    }
  } else {
    res.setHeader('Cache-Control', 'no-store');
    res.set(headers);
  }
  res.end(body);
}

function sendEmpty(res: Response, status: number, headers: AnswerHeaders): void {
  res.status(status).set({ 'Cache-Control': 'no-store', ...headers });
  res.end();
}

async function sendFile(req: Request, res: AppResponse, content: FileContent): Promise<void> {
  const tag = `"${content.etag}"`;
  const known = req.get('if-none-match');
  if (known !== undefined && matchesETag(known, tag)) {
    res.status(304).set('ETag', tag).end();
    return;
  }
  const range = requestedRange(req, tag, content.sizeBytes);
  if (range === null) {
    res.set('Content-Range', `bytes */${content.sizeBytes}`);
    throw appError('range_not_satisfiable');
  }
  // The file is opened before any header is set, so that a missing file becomes an error response.
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

async function sendDownload(req: Request, res: AppResponse, { content, ...described }: DownloadAnswer): Promise<void> {
  const pieces = content[Symbol.asyncIterator]();
  // Generates the first part of the content before any header is set, so that an early error becomes an error response.
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
  // Closes the generator also when the client disconnects.
  await pipeline(Readable.from(all(), { highWaterMark: 1 }), res).finally(() => pieces.return?.());
}

/**
 * These headers prevent a user's file from running as a page of this origin. At a signed URL, pages of other origins may
 * show the file, and a link opens what the service has made itself.
 */
function describeFile(
  res: AppResponse,
  { fileName, mediaType, isShown }: Pick<FileContent, 'fileName' | 'mediaType' | 'isShown'>,
): void {
  const isOpened = isShown && res.locals.isSigned;
  res.set({
    'Content-Disposition': isOpened ? inlineContentDisposition(fileName) : attachmentContentDisposition(fileName),
    'Content-Security-Policy': `sandbox; default-src 'none'${isOpened ? "; style-src 'unsafe-inline'" : ''}`,
    ...(res.locals.isSigned && { 'Cross-Origin-Resource-Policy': 'cross-origin' }),
  });
  // `res.set` would append a charset to the media type, but the charset of a user's file is unknown.
  res.setHeader('Content-Type', mediaType);
}

function requestedRange(req: Request, tag: string, sizeBytes: number): ByteRange | null | undefined {
  const condition = req.get('if-range');
  if (condition !== undefined && condition !== tag) return undefined;
  return parseByteRange(req.get('range'), sizeBytes);
}

import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import type { Logger } from 'pino';
import { attachmentContentDisposition } from '#src/domain/text/content-disposition.ts';
import { appError } from '#src/errors.ts';
import type { StoredEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import { type ByteRange, entityTag, includesTag, parseByteRange } from '../request/headers.ts';
import type { AppResponse } from '../server/middleware.ts';
import { type EventSink, eventStreamHeaders, type OpenStreams } from './event-streams.ts';
import { sendProblem, toAppError } from './problem.ts';

export type { EventSink } from './event-streams.ts';

export type AnswerHeaders = Record<string, string>;

export type JsonAnswer<Status extends number = number, Data = unknown> = {
  kind: 'json';
  status: Status;
  data: Data;
  headers: AnswerHeaders;
  version?: number;
};

export type EmptyAnswer<Status extends number = number> = { kind: 'empty'; status: Status; headers: AnswerHeaders };

export type EventsAnswer = {
  kind: 'events';
  status: 200;
  run: (events: EventSink) => Promise<void>;
  /** A watch only reports events, possibly for hours; a shutdown closes it immediately. */
  isWatch: boolean;
  headers: AnswerHeaders;
};

/** Byte ranges of files are inclusive at both ends. */
export type FileContent = {
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  etag: string;
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

export type Answer = JsonAnswer | EmptyAnswer | EventsAnswer | FileAnswer | DownloadAnswer;

export function ok<Data>(data: Data, headers: AnswerHeaders = {}): JsonAnswer<200, Data> {
  return { kind: 'json', status: 200, data, headers };
}

/** Response to a GET of a resource that supports `If-Match`. Read the version before or together with the data. */
export function versioned<Data>(data: Data, { version }: { version: number }): JsonAnswer<200, Data> {
  return { ...ok(data), version };
}

export function created<Data>(data: Data, headers: AnswerHeaders = {}): JsonAnswer<201, Data> {
  return { kind: 'json', status: 201, data, headers };
}

export function answer<Status extends number, Data>(status: Status, data: Data): JsonAnswer<Status, Data> {
  return { kind: 'json', status, data, headers: {} };
}

export function noContent(): EmptyAnswer<204> {
  return { kind: 'empty', status: 204, headers: {} };
}

export function found(location: string): EmptyAnswer<302> {
  return { kind: 'empty', status: 302, headers: { Location: location } };
}

export function seeOther(location: string): EmptyAnswer<303> {
  return { kind: 'empty', status: 303, headers: { Location: location } };
}

/** A stream of Server-Sent Events ends with its handler; an unexpected error ends it with an `error` event. */
export function eventStream(
  run: (events: EventSink) => Promise<void>,
  options: { headers?: AnswerHeaders; isWatch?: boolean } = {},
): EventsAnswer {
  return { kind: 'events', status: 200, run, isWatch: options.isWatch ?? false, headers: options.headers ?? {} };
}

/** Generated downloads have no `ETag` and no `Range`. If one fails midway, the connection is closed. */
export function download(made: Pick<DownloadAnswer, 'fileName' | 'mediaType' | 'content'>): DownloadAnswer {
  return { kind: 'download', status: 200, ...made, headers: {} };
}

export function file(content: FileContent): FileAnswer {
  return { kind: 'file', status: 200, content, headers: {} };
}

/** An event stream whose handler has finished. It stays open until `end`, so that its events can be stored first. */
type SentStream = { end: () => void };

export type Delivery = {
  send(req: Request, res: AppResponse, answer: Answer): Promise<void>;
  sendAgain(req: Request, res: AppResponse, stored: StoredResponse): Promise<void>;
  stream(res: AppResponse, answer: EventsAnswer, onEvent?: (event: StoredEvent) => void): Promise<SentStream>;
};

export function createDelivery(deps: {
  streams: OpenStreams;
  logger: Logger;
  isOutage: (error: unknown) => boolean;
}): Delivery {
  const { streams, logger, isOutage } = deps;

  const delivery: Delivery = {
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
          (await delivery.stream(res, answer)).end();
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
          const replay = async (events: EventSink) => {
            for (const event of body.events) await events.send(event);
          };
          (await delivery.stream(res, eventStream(replay, { headers }))).end();
        }
      }
    },

    async stream(res, { run, headers, isWatch }, onEvent) {
      res.status(200).set({ ...eventStreamHeaders, ...headers });
      const open = streams.open(res, { isWatch, sessionId: res.locals.sessionId });
      const send = (event: StoredEvent) => {
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
  return delivery;
}

function sendJson(req: Request, res: Response, { status, data, headers, version }: Omit<JsonAnswer, 'kind'>): void {
  const body = JSON.stringify(data);
  res.status(status).set('Content-Type', 'application/json; charset=utf-8');
  if (status === 200 && (req.method === 'GET' || req.method === 'HEAD')) {
    const tag = entityTag(body, version);
    // Clients must revalidate, because a caller's permissions can change at any time.
    res.set({ ETag: tag, 'Cache-Control': 'private, no-cache' }).set(headers);
    const known = req.get('if-none-match');
    if (known !== undefined && includesTag(known, tag)) {
      res.removeHeader('Content-Type');
      res.status(304).end();
      return;
    }
  } else {
    res.set('Cache-Control', 'no-store').set(headers);
  }
  res.end(body);
}

function sendEmpty(res: Response, status: number, headers: AnswerHeaders): void {
  res.status(status).set({ 'Cache-Control': 'no-store', ...headers });
  res.end();
}

async function sendFile(req: Request, res: Response, content: FileContent): Promise<void> {
  const tag = `"${content.etag}"`;
  const known = req.get('if-none-match');
  if (known !== undefined && includesTag(known, tag)) {
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

async function sendDownload(req: Request, res: Response, { content, ...described }: DownloadAnswer): Promise<void> {
  const pieces = content[Symbol.asyncIterator]();
  // The first piece is generated before any header is set, so that an early error becomes an error response.
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
  // The generator must be closed also when the client disconnects.
  await pipeline(Readable.from(all(), { highWaterMark: 1 }), res).finally(() => pieces.return?.());
}

/** These headers prevent a user's file from running as a page of this origin. */
function describeFile(res: Response, { fileName, mediaType }: Pick<FileContent, 'fileName' | 'mediaType'>): void {
  res.set({
    'Content-Disposition': attachmentContentDisposition(fileName),
    'Content-Security-Policy': "sandbox; default-src 'none'",
  });
  // `set` would add a charset, and that of a user's file is unknown.
  res.setHeader('Content-Type', mediaType);
}

function requestedRange(req: Request, tag: string, sizeBytes: number): ByteRange | null | undefined {
  const condition = req.get('if-range');
  if (condition !== undefined && condition !== tag) return undefined;
  return parseByteRange(req.get('range'), sizeBytes);
}

import type { Readable } from 'node:stream';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';

export type AnswerHeaders = Record<string, string>;

export type JsonAnswer<Status extends number = number, Data = unknown> = {
  kind: 'json';
  status: Status;
  data: Data;
  headers: AnswerHeaders;
  /** Version of the resource for its ETag, see `entityTag`. */
  version?: number;
};

export type EmptyAnswer<Status extends number = number> = { kind: 'empty'; status: Status; headers: AnswerHeaders };

/**
 * Sink of a streaming handler. `send` waits while the client is slow, and does nothing once the stream is closed by the client or
 * a shutdown.
 */
export type EventSink = { send(event: StoredEvent): Promise<void>; closed: AbortSignal };

export type EventsAnswer = {
  kind: 'events';
  status: 200;
  run: (events: EventSink) => Promise<void>;
  /** Reports events from elsewhere and may last for hours; a shutdown does not wait for it. */
  isWatch: boolean;
  headers: AnswerHeaders;
};

/** A download. `range` is inclusive, in bytes. */
export type FileContent = {
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  /** Changes with the content; without quotes. */
  etag: string;
  open: (range?: { start: number; end: number }) => Promise<Readable>;
};

export type FileAnswer = { kind: 'file'; status: 200; content: FileContent; headers: AnswerHeaders };

/** A file that is generated while it is sent, of unknown size. */
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

/** A JSON response with another status, such as 503 with its reasons. */
export function answer<Status extends number, Data>(status: Status, data: Data): JsonAnswer<Status, Data> {
  return { kind: 'json', status, data, headers: {} };
}

export function noContent(): EmptyAnswer<204> {
  return { kind: 'empty', status: 204, headers: {} };
}

/** 302: temporarily at another URL. */
export function found(location: string): EmptyAnswer<302> {
  return { kind: 'empty', status: 302, headers: { Location: location } };
}

/** 303: redirects a browser. */
export function seeOther(location: string): EmptyAnswer<303> {
  return { kind: 'empty', status: 303, headers: { Location: location } };
}

/** Server-Sent Events. The stream ends with `run`; an unexpected error ends it with an `error` event. */
export function eventStream(
  run: (events: EventSink) => Promise<void>,
  options: { headers?: AnswerHeaders; isWatch?: boolean } = {},
): EventsAnswer {
  return { kind: 'events', status: 200, run, isWatch: options.isWatch ?? false, headers: options.headers ?? {} };
}

/** A generated download as attachment, without `ETag` and `Range`. An error closes the connection. */
export function download(made: Pick<DownloadAnswer, 'fileName' | 'mediaType' | 'content'>): DownloadAnswer {
  return { kind: 'download', status: 200, ...made, headers: {} };
}

/** A download as attachment, with `ETag` and `Range`. */
export function file(content: FileContent): FileAnswer {
  return { kind: 'file', status: 200, content, headers: {} };
}

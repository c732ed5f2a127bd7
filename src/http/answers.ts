import type { Readable } from 'node:stream';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';

export type AnswerHeaders = Record<string, string>;

export type JsonAnswer<Status extends number = number, Data = unknown> = {
  kind: 'json';
  status: Status;
  data: Data;
  headers: AnswerHeaders;
  /** Of the resource in the answer to a GET: see `entityTag`. */
  version?: number;
};

export type EmptyAnswer<Status extends number = number> = { kind: 'empty'; status: Status; headers: AnswerHeaders };

/**
 * What a streaming handler writes to. `send` waits while the client is slow and does nothing once the stream is closed:
 * when its client has left, or when a shutdown has ended it.
 */
export type EventSink = { send(event: StoredEvent): Promise<void>; closed: AbortSignal };

export type EventsAnswer = {
  kind: 'events';
  status: 200;
  run: (events: EventSink) => Promise<void>;
  /** It tells what happens elsewhere and may last for hours, so that a shutdown does not wait for it. */
  isWatch: boolean;
  headers: AnswerHeaders;
};

/** A download. `open` gets an inclusive byte range when the client asked for a part. */
export type FileContent = {
  fileName: string;
  mediaType: string;
  sizeBytes: number;
  /** Changes with the content; without quotes. */
  etag: string;
  open: (range?: { start: number; end: number }) => Promise<Readable>;
};

export type FileAnswer = { kind: 'file'; status: 200; content: FileContent; headers: AnswerHeaders };

/** A file that is made while it is sent, of a size that nobody knows beforehand: pieces of text as the client takes them. */
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

/** The answer to a GET of a resource that `If-Match` may name. Read the version no later than the data. */
export function versioned<Data>(data: Data, { version }: { version: number }): JsonAnswer<200, Data> {
  return { ...ok(data), version };
}

export function created<Data>(data: Data, headers: AnswerHeaders = {}): JsonAnswer<201, Data> {
  return { kind: 'json', status: 201, data, headers };
}

/** For a status that says something about the data, such as 503 with the reasons. */
export function answer<Status extends number, Data>(status: Status, data: Data): JsonAnswer<Status, Data> {
  return { kind: 'json', status, data, headers: {} };
}

export function noContent(): EmptyAnswer<204> {
  return { kind: 'empty', status: 204, headers: {} };
}

/** What was asked for is elsewhere, for now. */
export function found(location: string): EmptyAnswer<302> {
  return { kind: 'empty', status: 302, headers: { Location: location } };
}

/** Sends a browser on to another page. */
export function seeOther(location: string): EmptyAnswer<303> {
  return { kind: 'empty', status: 303, headers: { Location: location } };
}

/** Server-Sent Events. The stream ends when `run` does; an unexpected throw ends it with an `error` event. */
export function eventStream(
  run: (events: EventSink) => Promise<void>,
  options: { headers?: AnswerHeaders; isWatch?: boolean } = {},
): EventsAnswer {
  return { kind: 'events', status: 200, run, isWatch: options.isWatch ?? false, headers: options.headers ?? {} };
}

/** A download as attachment that is made on the way: no `ETag`, no `Range`. A fault within it breaks it off. */
export function download(made: Pick<DownloadAnswer, 'fileName' | 'mediaType' | 'content'>): DownloadAnswer {
  return { kind: 'download', status: 200, ...made, headers: {} };
}

/** A download as attachment, with `ETag` and `Range`. */
export function file(content: FileContent): FileAnswer {
  return { kind: 'file', status: 200, content, headers: {} };
}

import type { ServerResponse } from 'node:http';
import { appError } from '#src/errors.ts';
import type { ServerSentEvent } from '#src/ports/idempotency-store.ts';

const heartbeatMs = 15_000;
/**
 * Limits for slow clients of an event stream. A client that reads nothing for `stallMs` or has more than
 * `maxBufferedBytes` of unsent data is disconnected; it can resume the stream.
 */
const stallMs = 30_000;
const maxBufferedBytes = 256 * 1024;
const reconnectMs = 3_000;

export const eventStreamHeaders = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Accel-Buffering': 'no',
};

/** `send` waits while the client is slow, and does nothing after the client or a shutdown has closed the stream. */
export type ServerSentEventSink = { send(event: ServerSentEvent): Promise<void>; closed: AbortSignal };

/** Ending a stream again has no effect; nothing is written after the first call. */
type OpenEventStream = ServerSentEventSink & { end(last?: ServerSentEvent): void };

const disconnectedStream: OpenEventStream = { send: async () => {}, end: () => {}, closed: AbortSignal.abort() };

function openEventStream(res: ServerResponse, format: ServerSentEventFormatter): OpenEventStream {
  if (res.destroyed) return disconnectedStream;
  const closing = new AbortController();
  res.flushHeaders();
  res.write(`retry: ${reconnectMs}\n\n`);
  const heartbeat = setInterval(() => res.write(': ping\n\n'), heartbeatMs);
  const close = () => {
    clearInterval(heartbeat);
    closing.abort();
  };
  res.once('close', close);

  const write = (event: ServerSentEvent): boolean => {
    // A new event is written even if it exceeds the limit of unsent data, because a single event may have any size.
    if (res.writableLength > maxBufferedBytes) res.destroy();
    return !res.destroyed && res.write(format(event));
  };

  return {
    closed: closing.signal,
    async send(event) {
      if (closing.signal.aborted || write(event) || res.destroyed) return;
      await drained(res);
    },
    end(last) {
      if (closing.signal.aborted) return;
      if (last !== undefined) write(last);
      close();
      res.end();
      // A slow client has `stallMs` to read the remaining data.
      const late = setTimeout(() => res.destroy(), stallMs).unref();
      res.once('close', () => clearTimeout(late));
    },
  };
}

type ServerSentEventFormatter = (event: ServerSentEvent) => Buffer;

function createServerSentEventFormatter(): ServerSentEventFormatter {
  const formatted = new WeakMap<ServerSentEvent, Buffer>();
  return (event) => {
    const known = formatted.get(event);
    if (known !== undefined) return known;
    const { id, event: name, data } = event;
    const text = `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`;
    const bytes = Buffer.from(text);
    formatted.set(event, bytes);
    return bytes;
  };
}

function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const stalled = setTimeout(() => res.destroy(), stallMs);
    const done = () => {
      clearTimeout(stalled);
      res.off('drain', done);
      res.off('close', done);
      resolve();
    };
    res.once('drain', done);
    res.once('close', done);
  });
}

/** Interval of session checks; a stream of a revoked session ends within five seconds. */
const defaultCheckMs = 2_000;

type StreamFacts = { isWatch: boolean; sessionId?: string | undefined };

/** Registry of the open event streams. If a session ends, its streams are closed with an `error` event. */
export type EventStreamRegistry = {
  open(res: ServerResponse, facts?: StreamFacts): OpenEventStream;
  count(): number;
  /**
   * For a shutdown: closes watches at once, waits up to `timeoutMs` for other streams, then ends the rest with an
   * `error` event.
   */
  drain(timeoutMs: number): Promise<void>;
};

export function createEventStreamRegistry(deps: {
  activeSessions: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
  onWarning: (error: unknown) => void;
  checkEveryMs?: number | undefined;
}): EventStreamRegistry {
  const { activeSessions, onWarning, checkEveryMs = defaultCheckMs } = deps;
  const streams = new Map<OpenEventStream, StreamFacts>();
  const format = createServerSentEventFormatter();
  let nextCheck: NodeJS.Timeout | undefined;
  let onEmpty = () => {};

  const endAll = (event: ServerSentEvent, matches: (facts: StreamFacts) => boolean) => {
    for (const [stream, facts] of streams) if (matches(facts)) stream.end(event);
  };

  async function closeStreamsOfEndedSessions(): Promise<void> {
    const asked = new Set(Array.from(streams.values(), ({ sessionId }) => sessionId ?? []).flat());
    if (asked.size === 0) return;
    const active = await activeSessions([...asked]);
    const isOver = ({ sessionId }: StreamFacts) =>
      sessionId !== undefined && asked.has(sessionId) && !active.has(sessionId);
    endAll(sessionIsOver, isOver);
  }

  function scheduleCheck(): void {
    if (streams.size === 0 || nextCheck !== undefined) return;
    nextCheck = setTimeout(async () => {
      // If the database is unreachable, streams stay open until the next check of their sessions.
      await closeStreamsOfEndedSessions().catch(onWarning);
      nextCheck = undefined;
      scheduleCheck();
    }, checkEveryMs).unref();
  }

  return {
    open(res, facts = { isWatch: false }) {
      const stream = openEventStream(res, format);
      if (res.destroyed) return stream;
      streams.set(stream, facts);
      scheduleCheck();
      res.once('close', () => {
        streams.delete(stream);
        if (streams.size === 0) onEmpty();
      });
      return stream;
    },
    count: () => streams.size,
    async drain(timeoutMs) {
      endAll(serverIsRestarting, ({ isWatch }) => isWatch);
      if (streams.size === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      onEmpty = resolve;
      await promise;
      clearTimeout(timer);
      endAll(serverIsRestarting, () => true);
    },
  };
}

const { code, message: detail } = appError('invalid_token', { detail: 'The session of this token has ended.' });
const sessionIsOver = { event: 'error', data: { detail, code } };
const serverIsRestarting = { event: 'error', data: { detail: 'server restarting' } };

import type { ServerResponse } from 'node:http';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';
import type { EventSink } from './answers.ts';

const heartbeatMs = 15_000;
/** A reader that takes nothing for so long, or lets so much pile up, is cut off; what it missed is stored. */
const stallMs = 30_000;
const maxBufferedBytes = 256 * 1024;
const reconnectMs = 3_000;

export const eventStreamHeaders = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Accel-Buffering': 'no',
};

/** An open stream. `end` may be called more than once; nothing is written after the first. */
export type OpenEventStream = EventSink & { end(last?: StoredEvent): void };

/** Whose client left before the stream opened: it never closes again, so that nothing may wait for that. */
const unread: OpenEventStream = { send: async () => {}, end: () => {}, closed: AbortSignal.abort() };

/** Starts a stream of Server-Sent Events on a response whose headers are set. */
export function openEventStream(res: ServerResponse, format: EventFormat): OpenEventStream {
  if (res.destroyed) return unread;
  const closing = new AbortController();
  res.flushHeaders();
  res.write(`retry: ${reconnectMs}\n\n`);
  const heartbeat = setInterval(() => res.write(': ping\n\n'), heartbeatMs);
  const close = () => {
    clearInterval(heartbeat);
    closing.abort();
  };
  res.once('close', close);

  const write = (event: StoredEvent): boolean => {
    // What piled up before counts: one event may be of any size.
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
      // What is not taken now is not waited for any longer than before.
      const late = setTimeout(() => res.destroy(), stallMs).unref();
      res.once('close', () => clearTimeout(late));
    },
  };
}

/** An event as it is sent. Of one that many are sent there is one text, however slowly they take it. */
export type EventFormat = (event: StoredEvent) => Buffer;

export function createEventFormat(): EventFormat {
  const formatted = new WeakMap<StoredEvent, Buffer>();
  return (event) => {
    const known = formatted.get(event);
    if (known !== undefined) return known;
    const { id, event: name, data } = event;
    const text = `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
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

import type { ServerResponse } from 'node:http';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';
import { type OpenEventStream, openEventStream } from './sse.ts';

/** The event streams that are open now: what a shutdown waits for, and ends when it has waited enough. */
export type OpenStreams = {
  open(res: ServerResponse): OpenEventStream;
  endAll(last: StoredEvent): void;
};

export function createOpenStreams(): OpenStreams {
  const streams = new Set<OpenEventStream>();
  return {
    open(res) {
      const stream = openEventStream(res);
      streams.add(stream);
      res.once('close', () => streams.delete(stream));
      return stream;
    },
    endAll(last) {
      for (const stream of streams) stream.end(last);
    },
  };
}

import type { ServerResponse } from 'node:http';
import { type OpenEventStream, openEventStream } from './sse.ts';

/** The event streams that are open now. */
export type OpenStreams = {
  open(res: ServerResponse): OpenEventStream;
  /** Lets them end by themselves for a while, and then ends what is left with an `error` event. */
  drain(timeoutMs: number): Promise<void>;
};

export function createOpenStreams(): OpenStreams {
  const streams = new Set<OpenEventStream>();
  let onEmpty = () => {};

  return {
    open(res) {
      const stream = openEventStream(res);
      if (res.destroyed) return stream;
      streams.add(stream);
      res.once('close', () => {
        streams.delete(stream);
        if (streams.size === 0) onEmpty();
      });
      return stream;
    },
    async drain(timeoutMs) {
      if (streams.size === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      onEmpty = resolve;
      await promise;
      clearTimeout(timer);
      for (const stream of streams) stream.end({ event: 'error', data: { detail: 'server restarting' } });
    },
  };
}

import type { ServerResponse } from 'node:http';
import { type OpenEventStream, openEventStream } from './sse.ts';

/** The event streams that are open now. */
export type OpenStreams = {
  open(res: ServerResponse, options?: { isWatch: boolean }): OpenEventStream;
  /** Ends watches, lets the others end by themselves for a while, and ends what is left; with an `error` event. */
  drain(timeoutMs: number): Promise<void>;
};

export function createOpenStreams(): OpenStreams {
  const streams = new Map<OpenEventStream, { isWatch: boolean }>();
  let onEmpty = () => {};

  const end = (stream: OpenEventStream) => stream.end({ event: 'error', data: { detail: 'server restarting' } });

  return {
    open(res, options = { isWatch: false }) {
      const stream = openEventStream(res);
      if (res.destroyed) return stream;
      streams.set(stream, options);
      res.once('close', () => {
        streams.delete(stream);
        if (streams.size === 0) onEmpty();
      });
      return stream;
    },
    async drain(timeoutMs) {
      for (const [stream, { isWatch }] of streams) if (isWatch) end(stream);
      if (streams.size === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      onEmpty = resolve;
      await promise;
      clearTimeout(timer);
      for (const stream of streams.keys()) end(stream);
    },
  };
}

import type { ServerResponse } from 'node:http';
import { appError } from '#src/errors.ts';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';
import { createEventFormat, type OpenEventStream, openEventStream } from './sse.ts';

/** With the time that the question takes, a session that was cut off is heard of within five seconds everywhere. */
const usualLookMs = 2_000;

/** `sessionId` is that of the reader; a stream without one is anybody's. */
export type StreamFacts = { isWatch: boolean; sessionId?: string | undefined };

/** The event streams that are open now. Those whose session ends are ended with an `error` event. */
export type OpenStreams = {
  open(res: ServerResponse, facts?: StreamFacts): OpenEventStream;
  count(): number;
  /** Ends watches, lets the others end by themselves for a while, and ends what is left; with an `error` event. */
  drain(timeoutMs: number): Promise<void>;
};

export function createOpenStreams(deps: {
  /** Which of these sessions go on; asked about all open streams at once. */
  activeSessions: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
  onWarning: (error: unknown) => void;
  lookEveryMs?: number | undefined;
}): OpenStreams {
  const { activeSessions, onWarning, lookEveryMs = usualLookMs } = deps;
  const streams = new Map<OpenEventStream, StreamFacts>();
  const format = createEventFormat();
  let looking: NodeJS.Timeout | undefined;
  let onEmpty = () => {};

  const endAll = (event: StoredEvent, matches: (facts: StreamFacts) => boolean) => {
    for (const [stream, facts] of streams) if (matches(facts)) stream.end(event);
  };

  async function endThoseOfEndedSessions(): Promise<void> {
    const asked = new Set(Array.from(streams.values(), ({ sessionId }) => sessionId ?? []).flat());
    if (asked.size === 0) return;
    const active = await activeSessions([...asked]);
    const isOver = ({ sessionId }: StreamFacts) =>
      sessionId !== undefined && asked.has(sessionId) && !active.has(sessionId);
    endAll(sessionIsOver, isOver);
  }

  function look(): void {
    if (streams.size === 0 || looking !== undefined) return;
    looking = setTimeout(async () => {
      // A database that is away ends no stream: the next look may find it again.
      await endThoseOfEndedSessions().catch(onWarning);
      looking = undefined;
      look();
    }, lookEveryMs).unref();
  }

  return {
    open(res, facts = { isWatch: false }) {
      const stream = openEventStream(res, format);
      if (res.destroyed) return stream;
      streams.set(stream, facts);
      look();
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

const { code, message: detail } = appError('invalid_token', { detail: 'The session of this token is over.' });
const sessionIsOver = { event: 'error', data: { detail, code } };
const serverIsRestarting = { event: 'error', data: { detail: 'server restarting' } };

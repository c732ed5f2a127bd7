import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { appError } from '#src/errors.ts';
import type { FollowedStream } from './round-follower.ts';
import type { RoundsRepository } from './rounds.repository.ts';

/** What happens to an answer that nobody reads any more. */
export type OnDisconnect = 'continue' | 'cancel';

/** Clients of Server-Sent Events come back after three seconds. */
const usualPatience = { seconds: 5, lookEveryMs: 1_000 };

/**
 * Waits, once the first reader of an answer has left, for the moment at which nobody reads it in any process. `signal`
 * is aborted then; never after `stop`.
 */
export function watchReaders(
  stream: FollowedStream,
  rounds: Pick<RoundsRepository, 'isFollowed'>,
  logger: Pick<Logger, 'warn'>,
  { seconds, lookEveryMs } = usualPatience,
): { signal: AbortSignal; readBy(closed: AbortSignal): void; stop(): void } {
  const abandoned = new AbortController();
  const stopped = new AbortController();

  async function look(): Promise<void> {
    await delay(seconds * 1_000, undefined, { signal: stopped.signal });
    for (;;) {
      // While nobody can tell, nobody has left.
      const isFollowed = await rounds.isFollowed(stream, seconds).catch((error: unknown) => {
        logger.warn({ err: error }, 'whether an answer is read could not be looked up');
        return true;
      });
      if (!isFollowed) break;
      await delay(lookEveryMs, undefined, { signal: stopped.signal });
    }
    abandoned.abort(appError('interrupted', { detail: 'Nobody reads the answer any more.' }));
  }

  return {
    signal: abandoned.signal,
    readBy(closed) {
      // A delay rejects when the answer is over before that.
      const onClosed = () => void look().catch(() => undefined);
      if (closed.aborted) onClosed();
      else closed.addEventListener('abort', onClosed, { once: true, signal: stopped.signal });
    },
    stop: () => stopped.abort(),
  };
}

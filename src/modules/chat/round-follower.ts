import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isLast, type NumberedEvent, type RoundKey } from './chat.model.ts';
import type { RoundEventsRepository } from './round-events.repository.ts';
import type { RoundsRepository } from './rounds.repository.ts';

const lookEveryMs = 100;
/** Whether a silent answer has ended is asked less often, and so is said who reads. */
const looksToSilence = 10;
/** After its end, for the last batch of its events to arrive; longer where it is known that there is one. */
const looksAfterEnd = 5;
const looksForLast = 50;

export type FollowedStream = RoundKey & { streamId: string };

type Follower = {
  stream: FollowedStream;
  afterSeq: number;
  inbox: NumberedEvent[];
  looks: number;
  silentLooks: number;
  looksSinceEnd: number | null;
  /** The number of the last event, as the round says; null when it does not. */
  lastSeq: number | null;
  wake: () => void;
};

export type RoundFollower = ReturnType<typeof createRoundFollower>;

/**
 * Reads the events of answers wherever they are written: one question to the database, ten times a second, for all who
 * follow one in this process.
 */
export function createRoundFollower(deps: {
  events: Pick<RoundEventsRepository, 'listAfter'>;
  rounds: Pick<RoundsRepository, 'listLively' | 'recordFollowers'>;
  /** Answers end with their readers: the process that writes one has to know of those who read it here. */
  areCounted: boolean;
  logger: Pick<Logger, 'warn'>;
}) {
  const { events: repository, rounds, areCounted, logger } = deps;
  const followers = new Set<Follower>();
  let isLooking = false;

  async function look(): Promise<void> {
    const asked = [...followers];
    if (areCounted) await recordFollowers(asked);
    const earliest = new Map<string, number>();
    for (const { stream, afterSeq } of asked) {
      earliest.set(stream.streamId, Math.min(afterSeq, earliest.get(stream.streamId) ?? afterSeq));
    }
    const found = await repository.listAfter(Array.from(earliest, ([streamId, afterSeq]) => ({ streamId, afterSeq })));
    for (const follower of asked) {
      const news = (found.get(follower.stream.streamId) ?? []).filter(({ seq }) => seq > follower.afterSeq);
      const last = news.at(-1);
      follower.silentLooks = last === undefined ? follower.silentLooks + 1 : 0;
      if (follower.looksSinceEnd !== null) follower.looksSinceEnd += 1;
      if (last === undefined) continue;
      follower.afterSeq = last.seq;
      follower.inbox.push(...news);
    }
    await lookForEnds(asked.filter(({ silentLooks }) => silentLooks % looksToSilence === 1));
    for (const follower of asked) follower.wake();
  }

  async function recordFollowers(asked: readonly Follower[]): Promise<void> {
    const due = asked.filter((follower) => follower.looks++ % looksToSilence === 0);
    if (due.length > 0) await rounds.recordFollowers(due.map(({ stream }) => stream));
  }

  async function lookForEnds(silent: readonly Follower[]): Promise<void> {
    const unended = silent.filter(({ looksSinceEnd }) => looksSinceEnd === null);
    if (unended.length === 0) return;
    const lively = await rounds.listLively(unended.map(({ stream }) => stream));
    for (const follower of unended) {
      const stream = lively.get(follower.stream.streamId);
      if (stream?.isOpen) continue;
      follower.looksSinceEnd = 0;
      follower.lastSeq = stream?.lastSeq ?? null;
    }
  }

  const isWaitOver = ({ afterSeq, lastSeq, looksSinceEnd }: Follower): boolean =>
    (looksSinceEnd ?? 0) > (lastSeq !== null && lastSeq > afterSeq ? looksForLast : looksAfterEnd);

  async function lookOn(): Promise<void> {
    isLooking = true;
    while (followers.size > 0) {
      await look().catch((error: unknown) => logger.warn({ err: error }, 'events of answers could not be read'));
      await delay(lookEveryMs);
    }
    isLooking = false;
  }

  return {
    /**
     * The events after `afterSeq`, as they come. Ends after the last one of the answer, when `signal` is aborted, and
     * without a last one when there is none to come: the answer is over and its events are gone, or its process is.
     */
    async *follow(stream: FollowedStream, afterSeq: number, signal: AbortSignal): AsyncGenerator<NumberedEvent> {
      let news = Promise.withResolvers<void>();
      const follower: Follower = {
        ...{ stream, afterSeq, inbox: [], looks: 0, silentLooks: 0, looksSinceEnd: null, lastSeq: null },
        wake: () => news.resolve(),
      };
      followers.add(follower);
      signal.addEventListener('abort', follower.wake, { once: true });
      if (!isLooking) void lookOn();
      try {
        while (!signal.aborted) {
          await news.promise;
          news = Promise.withResolvers<void>();
          for (const event of follower.inbox.splice(0)) {
            yield event;
            if (isLast(event)) return;
          }
          // A slow reader finds more each time that he is done with what there was.
          if (follower.inbox.length === 0 && isWaitOver(follower)) return;
        }
      } finally {
        followers.delete(follower);
        signal.removeEventListener('abort', follower.wake);
      }
    },
  };
}

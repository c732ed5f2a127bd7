import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Actor, hasLostAccessKeys } from '#src/domain/access/visibility.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Metrics } from '#src/ports/telemetry.ts';
import {
  errorEventSeq,
  eventSeqBeforeAttempt,
  isLastRoundEvent,
  type NumberedRoundEvent,
  type RoundEvent,
  type RoundStreamKey,
} from './chat.model.ts';
import type { RoundEventBatch, RoundEventsRepository } from './round-events.repository.ts';
import type { RoundsRepository } from './rounds.repository.ts';

/**
 * Passes the items of one writer to any number of readers. Each reader starts at the first item and waits for the next
 * until the writer closes. A slow or disconnected reader never blocks the writer.
 */
export function createReplayableBuffer<T>() {
  const items: T[] = [];
  let closed = false;
  let changed = Promise.withResolvers<void>();

  function wakeReaders(): void {
    const waited = changed;
    changed = Promise.withResolvers<void>();
    waited.resolve();
  }

  return {
    push(item: T): void {
      items.push(item);
      wakeReaders();
    },
    close(): void {
      closed = true;
      wakeReaders();
    },
    async *read(): AsyncGenerator<T, void, undefined> {
      for (let next = 0; ; next++) {
        while (next >= items.length) {
          if (closed) return;
          await changed.promise;
        }
        yield items[next] as T;
      }
    },
  };
}

export type RoundEventLog = ReturnType<typeof createRoundEventLog>;

/** Numbers the events of one attempt for readers and `record`. Ignores events after `done` or `error`. */
export function createRoundEventLog(attempt: number, record: (event: NumberedRoundEvent) => void) {
  const events = createReplayableBuffer<NumberedRoundEvent>();
  let seq = eventSeqBeforeAttempt(attempt);
  let isOver = false;

  function add(event: RoundEvent): void {
    if (isOver) return;
    isOver = isLastRoundEvent(event);
    seq = event.event === 'error' ? errorEventSeq(attempt) : seq + 1;
    const numbered = { ...event, seq };
    events.push(numbered);
    record(numbered);
  }

  return {
    token: (text: string): void => add({ event: 'token', text }),
    nextSeq: (): number => seq + 1,
    end(event: RoundEvent): void {
      add(event);
      events.close();
    },
    read: events.read,
  };
}

export function createRoundMetrics(metrics: Pick<Metrics, 'count' | 'time'>): (event: NumberedRoundEvent) => void {
  const startedMs = performance.now();
  let hasToken = false;
  return (event) => {
    if (event.event === 'done') metrics.count('acs_chat_rounds_total', { outcome: 'ok' });
    else if (event.event === 'error') metrics.count('acs_chat_rounds_total', { outcome: event.code });
    else if (!hasToken) {
      hasToken = true;
      metrics.time('acs_chat_first_token_seconds', {}, (performance.now() - startedMs) / 1_000);
    }
  };
}

const flushEveryMs = 100;

/**
 * Stores the events of all answers of this process in one batch, ten times a second, for clients that reconnect.
 * Answers do not wait for it. While the database is down, events stay in memory; answers cannot be stored then either.
 * If the database rejects the events of one answer, only those are lost.
 */
export function createRoundEventRecorder(deps: {
  events: Pick<RoundEventsRepository, 'insert'>;
  isOutage: (error: unknown) => boolean;
  logger: Pick<Logger, 'warn'>;
}) {
  const { events: repository, isOutage, logger } = deps;
  const pending = new Map<string, { stream: RoundStreamKey & { orgId: string }; events: NumberedRoundEvent[] }>();
  let flushing: Promise<void> | undefined;

  async function flush(): Promise<void> {
    const batches = Array.from(pending.values(), ({ stream, events }) => ({ ...stream, events: [...events] }));
    await store(batches).catch((error: unknown) => {
      logger.warn({ err: error }, 'storing events of answers failed, retrying');
    });
  }

  /** Throws if the database is down; logs and drops batches that the database rejects. */
  async function store(batches: readonly RoundEventBatch[]): Promise<void> {
    try {
      await repository.insert(batches);
    } catch (error) {
      if (isOutage(error)) throw error;
      if (batches.length > 1) {
        for (const batch of batches) await store([batch]);
        return;
      }
      logger.warn(
        { err: error, streamId: batches[0]?.streamId },
        'the database rejected events of an answer; the events are lost',
      );
    }
    for (const { streamId, events } of batches) dropFirst(streamId, events.length);
  }

  function dropFirst(streamId: string, count: number): void {
    const stream = pending.get(streamId);
    stream?.events.splice(0, count);
    if (stream?.events.length === 0) pending.delete(streamId);
  }

  async function flushUntilEmpty(): Promise<void> {
    while (pending.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, flushEveryMs));
      await flush();
    }
    flushing = undefined;
  }

  return {
    record(stream: RoundStreamKey & { orgId: string }, event: NumberedRoundEvent): void {
      const known = pending.get(stream.streamId);
      if (known === undefined) pending.set(stream.streamId, { stream, events: [event] });
      else known.events.push(event);
      flushing ??= flushUntilEmpty();
    },

    /** Tries once to store the pending events when the process shuts down. */
    async close(): Promise<void> {
      if (pending.size > 0) await flush();
      pending.clear();
      await flushing;
    },
  };
}

const pollEveryMs = 100;
/**
 * A follower reads stored events for one client. After this many polls, it records that the client is connected, or
 * checks whether a silent answer has ended.
 */
const pollsPerCheck = 10;
/** Number of polls in which a follower waits for further events after the answer has ended. */
const pollsAfterEnd = 5;
/**
 * Number of polls in which a follower waits after the end of an answer whose `lastSeq` shows that events are missing.
 */
const pollsForMissingEvent = 50;

type Follower = {
  stream: RoundStreamKey;
  afterSeq: number;
  inbox: NumberedRoundEvent[];
  polls: number;
  silentPolls: number;
  pollsSinceEnd: number | null;
  lastSeq: number | null;
  wake: () => void;
};

export type RoundEventFollower = ReturnType<typeof createRoundEventFollower>;

/**
 * Reads the stored events of answers that other processes write: one query, ten times a second, for all followers in
 * this process.
 */
export function createRoundEventFollower(deps: {
  events: Pick<RoundEventsRepository, 'listAfter'>;
  rounds: Pick<RoundsRepository, 'listActive' | 'recordFollowers'>;
  /**
   * True if the deployment cancels answers that no client reads: followers then record that their clients are
   * connected.
   */
  recordsFollowers: boolean;
  logger: Pick<Logger, 'warn'>;
}) {
  const { events: repository, rounds, recordsFollowers, logger } = deps;
  const followers = new Set<Follower>();
  let isPolling = false;

  async function pollUntilUnused(): Promise<void> {
    isPolling = true;
    while (followers.size > 0) {
      await poll().catch((error: unknown) => logger.warn({ err: error }, 'reading events of answers failed'));
      await delay(pollEveryMs);
    }
    isPolling = false;
  }

  async function poll(): Promise<void> {
    const polled = [...followers];
    if (recordsFollowers) await recordFollowers(polled);
    const earliest = new Map<string, number>();
    for (const { stream, afterSeq } of polled) {
      earliest.set(stream.streamId, Math.min(afterSeq, earliest.get(stream.streamId) ?? afterSeq));
    }
    const found = await repository.listAfter(Array.from(earliest, ([streamId, afterSeq]) => ({ streamId, afterSeq })));
    for (const follower of polled) {
      const added = (found.get(follower.stream.streamId) ?? []).filter(({ seq }) => seq > follower.afterSeq);
      const last = added.at(-1);
      follower.silentPolls = last === undefined ? follower.silentPolls + 1 : 0;
      if (follower.pollsSinceEnd !== null) follower.pollsSinceEnd += 1;
      if (last === undefined) continue;
      follower.afterSeq = last.seq;
      follower.inbox.push(...added);
    }
    await checkEnds(polled.filter(({ silentPolls }) => silentPolls % pollsPerCheck === 1));
    for (const follower of polled) follower.wake();
  }

  async function recordFollowers(polled: readonly Follower[]): Promise<void> {
    const due = polled.filter((follower) => follower.polls++ % pollsPerCheck === 0);
    if (due.length > 0) await rounds.recordFollowers(due.map(({ stream }) => stream));
  }

  async function checkEnds(silent: readonly Follower[]): Promise<void> {
    const unended = silent.filter(({ pollsSinceEnd }) => pollsSinceEnd === null);
    if (unended.length === 0) return;
    const active = await rounds.listActive(unended.map(({ stream }) => stream));
    for (const follower of unended) {
      const stream = active.get(follower.stream.streamId);
      if (stream?.isOpen) continue;
      follower.pollsSinceEnd = 0;
      follower.lastSeq = stream?.lastSeq ?? null;
    }
  }

  const isWaitOver = ({ afterSeq, lastSeq, pollsSinceEnd }: Follower): boolean =>
    (pollsSinceEnd ?? 0) > (lastSeq !== null && lastSeq > afterSeq ? pollsForMissingEvent : pollsAfterEnd);

  return {
    /**
     * Yields the stored events after `afterSeq`, until the last event of the answer or until `signal` is aborted. Ends
     * without a last event if none can come, because the events were deleted or the writing process died.
     */
    async *follow(stream: RoundStreamKey, afterSeq: number, signal: AbortSignal): AsyncGenerator<NumberedRoundEvent> {
      let changed = Promise.withResolvers<void>();
      const follower: Follower = {
        ...{ stream, afterSeq, inbox: [], polls: 0, silentPolls: 0, pollsSinceEnd: null, lastSeq: null },
        wake: () => changed.resolve(),
      };
      followers.add(follower);
      signal.addEventListener('abort', follower.wake, { once: true });
      if (!isPolling) void pollUntilUnused();
      try {
        while (!signal.aborted) {
          await changed.promise;
          changed = Promise.withResolvers<void>();
          for (const event of follower.inbox.splice(0)) {
            yield event;
            if (isLastRoundEvent(event)) return;
          }
          // Ends only if no more events have arrived while the reader processed the previous ones.
          if (follower.inbox.length === 0 && isWaitOver(follower)) return;
        }
      } finally {
        followers.delete(follower);
        signal.removeEventListener('abort', follower.wake);
      }
    },
  };
}

export type ClientDisconnectPolicy = 'continue' | 'cancel';

/**
 * `graceSeconds` is longer than the three seconds after which clients of Server-Sent Events reconnect, so that a short
 * disconnect does not cancel the answer.
 */
const defaultTiming = { graceSeconds: 5, checkEveryMs: 1_000 };

/**
 * Aborts `signal` when no client of any process reads the answer. The check starts when the client given to `readBy`
 * disconnects, and ends with `stop`.
 */
export function watchAnswerReaders(
  stream: RoundStreamKey,
  rounds: Pick<RoundsRepository, 'isFollowed'>,
  logger: Pick<Logger, 'warn'>,
  { graceSeconds, checkEveryMs } = defaultTiming,
): { signal: AbortSignal; readBy(closed: AbortSignal): void; stop(): void } {
  const abandoned = new AbortController();
  const stopped = new AbortController();

  async function abortWhenUnread(): Promise<void> {
    await delay(graceSeconds * 1_000, undefined, { signal: stopped.signal });
    for (;;) {
      // If the database is down, assumes that the answer has readers, so that an outage does not cancel answers.
      const isFollowed = await rounds.isFollowed(stream, graceSeconds).catch((error: unknown) => {
        logger.warn({ err: error }, 'looking up the connected clients of an answer failed');
        return true;
      });
      if (!isFollowed) break;
      await delay(checkEveryMs, undefined, { signal: stopped.signal });
    }
    abandoned.abort(appError('interrupted', { detail: 'The answer was cancelled because no client is connected.' }));
  }

  return {
    signal: abandoned.signal,
    readBy(closed) {
      // Calling `stop` rejects the pending delay of the check for readers; that rejection is no failure.
      const onClosed = () => void abortWhenUnread().catch(() => undefined);
      if (closed.aborted) onClosed();
      else closed.addEventListener('abort', onClosed, { once: true, signal: stopped.signal });
    },
    stop: () => stopped.abort(),
  };
}

const checkRightsEveryMs = 2_000;

/**
 * Checks a user's rights periodically until `stop` is called. Aborts `signal` if the account is disabled or deleted, or
 * if the user has lost access to a team or their admin role and `onLoss` returns an error.
 */
export function watchUserRights(
  actor: Actor,
  deps: {
    findActor: () => Promise<Actor | null>;
    onLoss: (now: Actor) => Promise<AppError | null>;
    logger: Pick<Logger, 'warn'>;
  },
): { signal: AbortSignal; stop(): void } {
  const { findActor, onLoss, logger } = deps;
  const lost = new AbortController();
  let held = actor;

  async function check(): Promise<void> {
    const now = await findActor();
    const isReduced = now !== null && hasLostAccessKeys(held, now);
    const reason = now === null ? appError('account_disabled') : isReduced ? await onLoss(now) : null;
    if (reason !== null) lost.abort(reason);
    if (now !== null) held = now;
  }

  const timer = setInterval(() => {
    check().catch((error: unknown) => {
      // An `AppError` means that the session has expired; the HTTP layer then closes the response itself.
      if (error instanceof AppError) return;
      logger.warn({ err: error }, 'checking the rights of a user failed');
    });
  }, checkRightsEveryMs);
  return { signal: lost.signal, stop: () => clearInterval(timer) };
}

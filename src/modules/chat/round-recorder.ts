import type { Logger } from 'pino';
import type { NumberedEvent, RoundKey } from './chat.model.ts';
import type { EventBatch, RoundEventsRepository } from './round-events.repository.ts';

const flushEveryMs = 100;

/** The stream of one answer. */
export type RecordedStream = RoundKey & { orgId: string; streamId: string };

/**
 * Stores what readers of answers are sent, for those who come back: of all answers of this process together, ten times
 * a second. Nobody waits for it; while the database is away events wait here, and then the answers fail, too. One whose
 * events it refuses loses them, and no other.
 */
export function createRoundRecorder(deps: {
  events: Pick<RoundEventsRepository, 'insert'>;
  isOutage: (error: unknown) => boolean;
  logger: Pick<Logger, 'warn'>;
}) {
  const { events: repository, isOutage, logger } = deps;
  const waiting = new Map<string, { stream: RecordedStream; events: NumberedEvent[] }>();
  let flushing: Promise<void> | undefined;

  async function flush(): Promise<void> {
    const batches = Array.from(waiting.values(), ({ stream, events }) => ({ ...stream, events: [...events] }));
    await store(batches).catch((error: unknown) => {
      logger.warn({ err: error }, 'events of answers are stored later');
    });
  }

  /** Throws while the database cannot be reached. */
  async function store(batches: readonly EventBatch[]): Promise<void> {
    try {
      await repository.insert(batches);
    } catch (error) {
      if (isOutage(error)) throw error;
      if (batches.length > 1) {
        for (const batch of batches) await store([batch]);
        return;
      }
      logger.warn({ err: error, streamId: batches[0]?.streamId }, 'events of an answer are lost');
    }
    for (const { streamId, events } of batches) forget(streamId, events.length);
  }

  function forget(streamId: string, count: number): void {
    const left = waiting.get(streamId);
    left?.events.splice(0, count);
    if (left?.events.length === 0) waiting.delete(streamId);
  }

  async function flushInTurns(): Promise<void> {
    while (waiting.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, flushEveryMs));
      await flush();
    }
    flushing = undefined;
  }

  return {
    record(stream: RecordedStream, event: NumberedEvent): void {
      const known = waiting.get(stream.streamId);
      if (known === undefined) waiting.set(stream.streamId, { stream, events: [event] });
      else known.events.push(event);
      flushing ??= flushInTurns();
    },

    /** Tries once more to store what waits: for the end of the process. */
    async close(): Promise<void> {
      if (waiting.size > 0) await flush();
      waiting.clear();
      await flushing;
    },
  };
}

import type { Logger } from 'pino';
import type { NumberedEvent } from './chat.model.ts';
import type { RoundEventsRepository } from './round-events.repository.ts';

const flushEveryMs = 100;

/** The stream of one answer. */
export type RecordedStream = { orgId: string; streamId: string; chatId: string };

/**
 * Stores what readers of answers are sent, for those who come back: of all answers of this process together, ten times
 * a second. Nobody waits for it; while the database is away events wait here, and then the answers fail, too.
 */
export function createRoundRecorder(deps: {
  events: Pick<RoundEventsRepository, 'insert'>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { events: repository, logger } = deps;
  const waiting = new Map<string, { stream: RecordedStream; events: NumberedEvent[] }>();
  let flushing: Promise<void> | undefined;

  async function flush(): Promise<void> {
    const batches = Array.from(waiting.values(), ({ stream, events }) => ({ ...stream, events: [...events] }));
    try {
      await repository.insert(batches);
      for (const { streamId, events } of batches) forget(streamId, events.length);
    } catch (error) {
      logger.warn({ err: error }, 'events of answers are stored later');
    }
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

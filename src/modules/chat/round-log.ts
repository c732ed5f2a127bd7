import { failureSeq, isLast, type NumberedEvent, type RoundEvent, seqBefore } from './chat.model.ts';
import { createReplayBuffer } from './replay-buffer.ts';

export type RoundLog = ReturnType<typeof createRoundLog>;

/**
 * Numbers the events of one attempt to answer, for those who listen and for those who come back. Behind the one that
 * ends it there is none: what comes later is left out.
 */
export function createRoundLog(attempt: number, record: (event: NumberedEvent) => void) {
  const events = createReplayBuffer<NumberedEvent>();
  let seq = seqBefore(attempt);
  let isOver = false;

  function add(event: RoundEvent): void {
    if (isOver) return;
    isOver = isLast(event);
    seq = event.event === 'error' ? failureSeq(attempt) : seq + 1;
    const numbered = { ...event, seq };
    events.push(numbered);
    record(numbered);
  }

  return {
    token: (text: string): void => add({ event: 'token', text }),
    /** The number of what comes next. */
    nextSeq: (): number => seq + 1,
    end(event: RoundEvent): void {
      add(event);
      events.close();
    },
    read: events.read,
  };
}

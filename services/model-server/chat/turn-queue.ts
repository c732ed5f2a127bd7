import { OpenAiError } from '../openai-error.ts';
import type { Urgency } from './chat-request.ts';

/** At about 10 s for each request, clients behind 32 others would time out before their answer begins. */
const MAX_WAITING = 32;
const ORDER: readonly Urgency[] = ['chat', 'judge', 'batch'];

type Waiting = { urgency: Urgency; begin: () => void };

/** Runs one task at a time. The most urgent waiting task is next, and the oldest among equals. */
export function createTurnQueue() {
  const waiting: Waiting[] = [];
  const onIdle: (() => void)[] = [];
  let isBusy = false;

  function next(): void {
    const first = ORDER.flatMap((urgency) => waiting.filter((one) => one.urgency === urgency)).at(0);
    isBusy = first !== undefined;
    if (!first) {
      for (const resolve of onIdle.splice(0)) resolve();
      return;
    }
    waiting.splice(waiting.indexOf(first), 1);
    first.begin();
  }

  async function turn(urgency: Urgency, signal: AbortSignal): Promise<void> {
    if (!isBusy) {
      isBusy = true;
      return;
    }
    if (waiting.length >= MAX_WAITING) {
      const code = 'rate_limit_exceeded';
      throw new OpenAiError(429, 'Too many requests are waiting for the chat model; retry later.', {
        code,
        retryAfterSeconds: 10,
      });
    }
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        waiting.splice(waiting.indexOf(one), 1);
        reject(signal.reason);
      };
      const one: Waiting = {
        urgency,
        begin: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      waiting.push(one);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  return {
    /** Runs the task at its turn. Rejects with the signal's reason if it is aborted while the task waits. */
    async run<Result>(urgency: Urgency, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
      signal.throwIfAborted();
      await turn(urgency, signal);
      try {
        return await work();
      } finally {
        next();
      }
    },
    async idle(): Promise<void> {
      if (isBusy) await new Promise<void>((resolve) => onIdle.push(resolve));
    },
  };
}

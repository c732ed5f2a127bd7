import { OpenAiError } from '../openai-error.ts';
import type { Urgency } from './chat-request.ts';

/** At some ten seconds each, whoever comes later would give up before it is their turn. */
const MAX_WAITING = 32;
const ORDER: readonly Urgency[] = ['chat', 'judge', 'batch'];

type Waiting = { urgency: Urgency; begin: () => void };

/** One turn at a time; among those that wait, the most urgent, and of them who came first. */
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
      throw new OpenAiError(429, 'Too many requests wait for the chat model.', { code, retryAfterSeconds: 10 });
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
    /** Does the work when its turn has come; a request whose signal is aborted leaves the queue with its reason. */
    async run<Result>(urgency: Urgency, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
      signal.throwIfAborted();
      await turn(urgency, signal);
      try {
        return await work();
      } finally {
        next();
      }
    },
    /** Settles when nothing runs and nothing waits. */
    async idle(): Promise<void> {
      if (isBusy) await new Promise<void>((resolve) => onIdle.push(resolve));
    },
  };
}

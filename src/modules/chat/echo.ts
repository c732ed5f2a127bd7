import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Chat, Echo, Round } from './chat.model.ts';
import { createRoundsRepository } from './rounds.repository.ts';

const pollEveryMs = 15;

const beforeAnyScore: Echo = { state: 'stable', ewma: 100, alignmentScore: 1, round: 0, events: [] };

/** The folded state that a chat's row remembers, without its events. */
export function echoOf({ echoState, ewma, alignmentScore, echoRound }: Chat): Echo {
  return { state: echoState, ewma, alignmentScore, round: echoRound, events: [] };
}

/** The newest folded state of a chat. */
export async function readEcho(db: Knex, chatId: string): Promise<Echo> {
  const scored = await createRoundsRepository(db).findNewestScored(chatId);
  if (scored === undefined) return beforeAnyScore;
  return {
    state: scored.echoState ?? beforeAnyScore.state,
    ewma: scored.ewma ?? beforeAnyScore.ewma,
    alignmentScore: scored.alignmentScore ?? beforeAnyScore.alignmentScore,
    round: scored.round,
    events: [...scored.answerEvents, ...scored.events],
  };
}

/** What happened in the round itself is known before it is scored: it joins the state of an older one. */
export function withEventsOf({ round, answerEvents }: Pick<Round, 'round' | 'answerEvents'>, echo: Echo): Echo {
  return echo.round === round ? echo : { ...echo, events: [...echo.events, ...answerEvents] };
}

/** Waits for the fold of `round`, which the worker usually makes within this time; else the newest there is. */
export async function waitForEcho(db: Knex, chatId: string, round: number, waitMs: number): Promise<Echo> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const echo = await readEcho(db, chatId);
    if (echo.round >= round || performance.now() >= deadline) return echo;
    await delay(pollEveryMs);
  }
}

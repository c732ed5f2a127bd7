import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import {
  type Chat,
  type ChatAnswer,
  failureSeq,
  isLast,
  type NumberedEvent,
  type Round,
  seqBefore,
} from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';
import { watchRights } from './rights-watch.ts';
import type { RoundFollower } from './round-follower.ts';
import { createRoundsRepository } from './rounds.repository.ts';

/** Where a reader was: the id of the last event that he got. */
export type EventPosition = { round: number; seq: number };

/**
 * Events come until the last one, or until the reader is gone. Throws `chat_not_found` once the reader may not read the
 * chat any more, by the rights that `actorNow` returns.
 */
export type ReplayedRound = {
  round: number;
  events(until: AbortSignal, actorNow: () => Promise<Actor>): AsyncIterable<NumberedEvent>;
};

/** Gives the events of answers again, from any process, while they are written and for a minute after. */
export function createRoundReplay(deps: {
  db: Knex;
  follower: RoundFollower;
  storedAnswer: (chat: Chat, round: Round) => Promise<ChatAnswer>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, follower, storedAnswer, logger } = deps;
  const rounds = createRoundsRepository(db);

  const unfinished = (attempt: number, code = 'interrupted'): NumberedEvent => {
    return { seq: failureSeq(attempt), event: 'error', code, detail: 'The answer was not finished.' };
  };

  /** How a round ended whose events do not say so, or that is answered anew by now. */
  async function endOf(chat: Chat, { chatId, round, streamId, attempt }: Round, seq: number): Promise<NumberedEvent> {
    const now = await rounds.find({ chatId, round });
    if (now === undefined || streamId === null || now.streamId !== streamId) return unfinished(attempt);
    if (now.status === 'complete') {
      return { seq: now.lastSeq ?? seq, event: 'done', answer: await storedAnswer(chat, now) };
    }
    return unfinished(attempt, now.errorCode ?? undefined);
  }

  async function* eventsAfter(
    chat: Chat,
    round: Round,
    afterSeq: number,
    signal: AbortSignal,
  ): AsyncGenerator<NumberedEvent> {
    const { chatId, streamId, attempt } = round;
    if (afterSeq > 0 && afterSeq < seqBefore(attempt)) {
      yield unfinished(attempt - 1);
      return;
    }
    let last = Math.max(afterSeq, seqBefore(attempt));
    if (streamId !== null) {
      for await (const event of follower.follow({ chatId, round: round.round, streamId }, afterSeq, signal)) {
        yield event;
        last = event.seq;
        if (isLast(event)) return;
      }
    }
    if (!signal.aborted) yield endOf(chat, round, last + 1);
  }

  /** The events while the reader may read the chat. */
  async function* eventsFor(
    actor: Actor,
    chat: Chat,
    read: (until: AbortSignal) => AsyncGenerator<NumberedEvent>,
    { until, actorNow }: { until: AbortSignal; actorNow: () => Promise<Actor> },
  ): AsyncGenerator<NumberedEvent> {
    const onLoss = async (now: Actor) => {
      const isReadable = (await createChatRepository(db).findReadable(now, chat.id)) !== undefined;
      return isReadable ? null : appError('chat_not_found');
    };
    const rights = watchRights(actor, { findActor: actorNow, onLoss, logger });
    try {
      for await (const event of read(AbortSignal.any([until, rights.signal]))) {
        rights.signal.throwIfAborted();
        yield event;
      }
      rights.signal.throwIfAborted();
    } finally {
      rights.stop();
    }
  }

  /**
   * What comes after `position`; of the newest round from its beginning on when that is null. Null when there is
   * nothing to come: no message yet, or the last event is known.
   */
  return async (actor: Actor, chatId: string, position: EventPosition | null): Promise<ReplayedRound | null> => {
    const chat = await createChatRepository(db).findReadable(actor, chatId);
    if (chat === undefined) throw appError('chat_not_found');
    const round =
      position === null ? await rounds.findNewest(chatId) : await rounds.find({ chatId, round: position.round });
    if (round === undefined) {
      if (position === null) return null;
      throw appError('malformed_request', { detail: 'Last-Event-ID names no message of this chat.' });
    }
    const afterSeq = position?.seq ?? 0;
    const isOver = round.status !== 'open' && afterSeq >= (round.lastSeq ?? failureSeq(round.attempt));
    const isOfBefore = afterSeq > 0 && afterSeq === seqBefore(round.attempt);
    if (isOver || isOfBefore) return null;
    const read = (until: AbortSignal) => eventsAfter(chat, round, afterSeq, until);
    const events: ReplayedRound['events'] = (until, actorNow) => eventsFor(actor, chat, read, { until, actorNow });
    return { round: round.round, events };
  };
}

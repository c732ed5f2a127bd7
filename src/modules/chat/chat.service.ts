import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { AlignmentService } from '#src/modules/alignment/alignment.service.ts';
import type { AuthService } from '#src/modules/auth/auth.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { Metrics } from '#src/ports/telemetry.ts';
import type { AnswerWriter, OpenRound } from './answer-writer.ts';
import {
  type Chat,
  type ChatAnswer,
  type ChatHistory,
  type CompletedAnswer,
  type Echo,
  failureSeq,
  type NumberedEvent,
  type Round,
} from './chat.model.ts';
import { type ChatFilter, createChatRepository } from './chat.repository.ts';
import { createChatChanges } from './chat-changes.ts';
import { echoOf, readEcho, waitForEcho, withEventsOf } from './echo.ts';
import { type OnDisconnect, watchReaders } from './reader-watch.ts';
import { watchRights } from './rights-watch.ts';
import { createRoundEventsRepository } from './round-events.repository.ts';
import { createRoundFollower } from './round-follower.ts';
import { keepLease, leaseSeconds } from './round-lease.ts';
import { createRoundLog, type RoundLog } from './round-log.ts';
import { createRoundMetrics } from './round-metrics.ts';
import type { Message, RoundOpener } from './round-opener.ts';
import { createRoundRecorder } from './round-recorder.ts';
import { createRoundReplay } from './round-replay.ts';
import { createRoundsRepository } from './rounds.repository.ts';

const closeAgainMs = 500;

/** A round that is being answered. It goes on whether or not anybody listens. */
export type RoundRun = {
  chatId: string;
  round: number;
  isNewChat: boolean;
  /** What goes out of it, from the first event on for any number of readers; the last one says how it ended. */
  events(): AsyncIterable<NumberedEvent>;
  /** Says whose stream this is, for a deployment whose answers end with their readers. */
  readBy(closed: AbortSignal): void;
  answer: Promise<ChatAnswer>;
};

type AnswerRun = Pick<RoundRun, 'events' | 'readBy' | 'answer'>;

export type ChatService = ReturnType<typeof createChatService>;

export function createChatService(deps: {
  db: Knex;
  openRound: RoundOpener;
  writeAnswer: AnswerWriter;
  retrieval: Pick<RetrievalService, 'unreadableDocuments'>;
  alignment: Pick<AlignmentService, 'nudge'>;
  accounts: Pick<AuthService, 'findActor'>;
  echoWaitMs: number;
  onDisconnect: OnDisconnect;
  /** Is this the error of a database that cannot be reached? */
  isOutage: (error: unknown) => boolean;
  metrics: Pick<Metrics, 'count' | 'time'>;
  logger: Logger;
}) {
  const { db, openRound, writeAnswer, retrieval, alignment, accounts, echoWaitMs, onDisconnect, isOutage, logger } =
    deps;
  const observeRound = createRoundMetrics(deps.metrics);
  const chats = createChatRepository(db);
  const rounds = createRoundsRepository(db);
  const changes = createChatChanges({ db });
  const roundEvents = createRoundEventsRepository(db);
  const recorder = createRoundRecorder({ events: roundEvents, isOutage, logger });
  const follower = createRoundFollower({
    events: roundEvents,
    rounds,
    areCounted: onDisconnect === 'cancel',
    logger,
  });
  const shutdown = new AbortController();
  let isDraining = false;
  const running = new Set<Promise<void>>();

  /** What a reader is told; of an error that is not ours nothing but that there was one. */
  function reasonOf(error: unknown): { code: string; detail: string } {
    const ours =
      error instanceof AppError ? error : appError(isOutage(error) ? 'service_unavailable' : 'internal_error');
    return { code: ours.code, detail: ours.message };
  }

  /** Work that goes on by itself and that a shutdown waits for. Whoever asked for it hears of its failure. */
  function untilDone(work: Promise<unknown>): void {
    const settled: Promise<void> = Promise.allSettled([work]).then(() => {
      running.delete(settled);
    });
    running.add(settled);
  }

  /** Answers an open round under its lease. */
  async function answerRound(
    actor: RequestActor,
    open: OpenRound,
    log: RoundLog,
    abandoned: AbortSignal,
  ): Promise<ChatAnswer> {
    const { chat, agent, round, leaseOwner } = open;
    const key = { chatId: chat.id, round };
    const lease = keepLease(key, leaseOwner, rounds, logger);
    // What the answer has read already cannot be taken out of it.
    const onLoss = async () => appError('interrupted', { detail: 'Your rights have changed. Send the message again.' });
    const rights = watchRights(actor, { findActor: () => accounts.findActor(actor.userId), onLoss, logger });
    let written: CompletedAnswer;
    try {
      const stopped = AbortSignal.any([lease.signal, rights.signal, abandoned, shutdown.signal]);
      written = await writeAnswer(actor, open, stopped, log);
    } catch (error) {
      const { code } = reasonOf(error);
      logger.warn({ err: error, ...key, code, requestId: actor.requestId }, 'a round ended in error');
      await closeFailed(open, code);
      throw error;
    } finally {
      lease.stop();
      rights.stop();
    }
    // Nobody waits for it: the answer is stored, and chat works while the workflow engine is down.
    untilDone(alignment.nudge(chat.id));
    const { assistantReply: reply, citations, toolCalls, answerEvents } = written;
    const echo = waitForEcho(db, chat.id, round, echoWaitMs);
    return answerOf(chat, { round, reply, citations, toolCalls, model: agent.chatModel }, answerEvents, echo);
  }

  /** While the database is away nobody waits for it: whoever sends the message again needs the round closed by then. */
  async function closeFailed({ chat, round, leaseOwner, attempt }: OpenRound, code: string): Promise<void> {
    const close = () => rounds.fail({ chatId: chat.id, round }, leaseOwner, code, failureSeq(attempt));
    const closeLater = async () => {
      for (const leaseEnd = Date.now() + leaseSeconds * 1_000; Date.now() < leaseEnd; ) {
        await delay(closeAgainMs, undefined, { signal: shutdown.signal });
        const isClosed = await close().then(
          () => true,
          () => false,
        );
        if (isClosed) return;
      }
    };
    await close().catch((error: unknown) => {
      logger.warn({ err: error, chatId: chat.id, round }, 'a failed round is closed later');
      // If that is in vain, too, the round ends as interrupted when its lease is over.
      untilDone(closeLater());
    });
  }

  /** The answer is stored: what else goes out with it is read if it can be, and is that of a moment ago if not. */
  async function answerOf(
    chat: Chat,
    written: Omit<ChatAnswer, 'chatId' | 'title' | 'echo'>,
    answerEvents: CompletedAnswer['answerEvents'],
    newest: Promise<Echo>,
  ): Promise<ChatAnswer> {
    const warn = (error: unknown) => {
      logger.warn({ err: error, chatId: chat.id }, 'an answer goes out with an older state of its chat');
    };
    const echo = withEventsOf({ round: written.round, answerEvents }, (await newest.catch(warn)) ?? echoOf(chat));
    const title = await chats.findTitle(chat.orgId, chat.id).catch(warn);
    return { ...written, chatId: chat.id, title: title ?? chat.title, echo };
  }

  /** An answer that was completed before. */
  async function storedAnswer(chat: Chat, stored: Round): Promise<ChatAnswer> {
    const { round, citations, toolCalls, answerEvents, model, assistantReply } = stored;
    const written = { round, reply: assistantReply ?? '', citations, toolCalls, model };
    return answerOf(chat, written, answerEvents, readEcho(db, chat.id));
  }

  function write(actor: RequestActor, open: OpenRound): AnswerRun {
    const { chat, round, leaseOwner: streamId } = open;
    const stream = { orgId: chat.orgId, chatId: chat.id, round, streamId };
    const readers = watchReaders({ ...stream, round: open.round }, rounds, logger);
    const observe = observeRound();
    const log = createRoundLog(open.attempt, (event) => {
      observe(event);
      recorder.record(stream, event);
    });
    const answer = answerRound(actor, open, log, readers.signal).finally(readers.stop);
    const told = answer.then(
      (written) => log.end({ event: 'done', answer: written }),
      (error: unknown) => log.end({ event: 'error', ...reasonOf(error) }),
    );
    untilDone(told);
    const readBy = onDisconnect === 'cancel' ? readers.readBy : () => undefined;
    return { events: log.read, readBy, answer };
  }

  function giveAgain(chat: Chat, stored: Round): AnswerRun {
    const answer = storedAnswer(chat, stored);
    async function* events(): AsyncGenerator<NumberedEvent> {
      yield { seq: stored.lastSeq ?? 1, event: 'done', answer: await answer };
    }
    return { events, readBy: () => undefined, answer };
  }

  async function refuseUnreadable(actor: Actor, message: Message): Promise<void> {
    for (const [path, ids] of [
      ['include_document_ids', message.ragIncludeDocumentIds],
      ['exclude_document_ids', message.ragExcludeDocumentIds],
    ] as const) {
      if (ids === null) continue;
      const [unreadable] = await retrieval.unreadableDocuments(actor, ids);
      if (unreadable === undefined) continue;
      throw fieldError(
        `${path}.${ids.indexOf(unreadable)}`,
        'names no document that you can read',
        'document_not_found',
      );
    }
  }

  async function begin(actor: RequestActor, message: Message): Promise<RoundRun> {
    await refuseUnreadable(actor, message);
    const opened = await openRound(actor, message);
    const { chat } = opened;
    const isNewChat = message.chatId === null;
    if (opened.outcome === 'answered') {
      return { chatId: chat.id, round: opened.round.round, isNewChat, ...giveAgain(chat, opened.round) };
    }
    const run = write(actor, { ...opened, question: message.text });
    return { chatId: chat.id, round: opened.round, isNewChat, ...run };
  }

  return {
    /**
     * Stores the message and starts to answer it. Throws what the message is refused for; a fault after that ends the
     * run. Sending the message of a failed round again answers that round.
     */
    async send(actor: RequestActor, message: Message): Promise<RoundRun> {
      if (isDraining) throw restarting();
      const begun = begin(actor, message);
      untilDone(begun);
      return begun;
    },

    /** The events of an answer again: see `createRoundReplay`. */
    replay: createRoundReplay({ db, follower, storedAnswer, logger }),

    /** A step of the sweeper. */
    forgetEvents: () => roundEvents.deleteOld(),

    rename: changes.rename,
    remove: changes.remove,

    async list(actor: Actor, filter: ChatFilter, page: { limit: number; after: ListPosition | null }) {
      const [{ items, last }, total] = await Promise.all([chats.list(actor, filter, page), chats.count(actor, filter)]);
      return { items, last, total };
    },

    async history(actor: Actor, chatId: string): Promise<ChatHistory> {
      const chat = await chats.findReadable(actor, chatId);
      if (chat === undefined) throw appError('chat_not_found');
      const [agent, all] = await Promise.all([chats.findAgent(chat.orgId, chat.agentId), rounds.list(chat.id)]);
      return {
        chat,
        rounds: all,
        agentName: agent?.agentName ?? '',
        isAgentDeleted: agent === undefined || agent.deletedAt !== null,
      };
    },

    /** A step of the sweeper: ends the rounds whose process died, 20 s after its last sign at the latest. */
    async closeExpiredRounds(): Promise<void> {
      const closed = await rounds.failExpired('interrupted');
      if (closed > 0) logger.warn({ rounds: closed }, 'rounds of a process that is gone were ended');
    },

    /** Takes no message any more; lets running answers finish for a while, then interrupts them, until none is left. */
    async drain(graceMs: number): Promise<void> {
      isDraining = true;
      const grace = setTimeout(() => shutdown.abort(restarting()), graceMs);
      while (running.size > 0) await Promise.all(running);
      await recorder.close();
      clearTimeout(grace);
    },
  };
}

function restarting(): AppError {
  return appError('interrupted', { detail: 'server restarting' });
}

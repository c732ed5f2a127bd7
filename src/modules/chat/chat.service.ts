import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { AppError, appError, type ExpectedVersions, fieldError, requireExpectedVersion } from '#src/errors.ts';
import type { ScoringRequestsService } from '#src/modules/alignment/scoring-requests.service.ts';
import type { AuthService } from '#src/modules/auth/auth.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { Metrics } from '#src/ports/telemetry.ts';
import { type AnswerWriter, createAnswerPresenter, type OpenRound } from './answer.ts';
import {
  type Chat,
  type ChatAnswer,
  type ChatHistory,
  type ChatSummary,
  type CompletedAnswer,
  failureSeq,
  type NumberedEvent,
  type Round,
} from './chat.model.ts';
import { type ChatFilter, createChatRepository } from './chat.repository.ts';
import { createRoundEventsRepository } from './round-events.repository.ts';
import { createRoundsRepository } from './rounds.repository.ts';
import {
  createRoundReplay,
  keepLease,
  leaseSeconds,
  type Message,
  type RoundOpener,
  requireWritable,
} from './rounds.ts';
import {
  createEventFollower,
  createEventRecorder,
  createRoundLog,
  measureRound,
  type OnDisconnect,
  type RoundLog,
  watchReaders,
  watchRights,
} from './stream.ts';

const closeRetryMs = 500;

/** A round that is being answered, with or without readers. */
type RoundRun = {
  chatId: string;
  round: number;
  isNewChat: boolean;
  /** All events of the round from the first one on, for any number of readers. */
  events(): AsyncIterable<NumberedEvent>;
  /** Registers the reader whose disconnect may end the answer; ignored unless `onDisconnect` is `cancel`. */
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
  scoringRequests: Pick<ScoringRequestsService, 'nudge'>;
  accounts: Pick<AuthService, 'findActor'>;
  echoWaitMs: number;
  onDisconnect: OnDisconnect;
  isOutage: (error: unknown) => boolean;
  metrics: Pick<Metrics, 'count' | 'time'>;
  logger: Logger;
}) {
  const { db, openRound, writeAnswer, retrieval, scoringRequests, accounts, echoWaitMs, onDisconnect, isOutage } = deps;
  const { metrics, logger } = deps;
  const chats = createChatRepository(db);
  const rounds = createRoundsRepository(db);
  const roundEvents = createRoundEventsRepository(db);
  const recorder = createEventRecorder({ events: roundEvents, isOutage, logger });
  const follower = createEventFollower({
    events: roundEvents,
    rounds,
    recordsFollowers: onDisconnect === 'cancel',
    logger,
  });
  const presenter = createAnswerPresenter({ db, echoWaitMs, logger });
  const shutdown = new AbortController();
  let isDraining = false;
  const running = new Set<Promise<void>>();

  async function begin(actor: RequestActor, message: Message): Promise<RoundRun> {
    await refuseUnreadable(actor, message);
    const opened = await openRound(actor, message);
    const { chat } = opened;
    const isNewChat = message.chatId === null;
    if (opened.outcome === 'answered') {
      return { chatId: chat.id, round: opened.round.round, isNewChat, ...runOfStored(chat, opened.round) };
    }
    const run = startAnswer(actor, { ...opened, question: message.text });
    return { chatId: chat.id, round: opened.round, isNewChat, ...run };
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

  function runOfStored(chat: Chat, stored: Round): AnswerRun {
    const answer = presenter.stored(chat, stored);
    async function* events(): AsyncGenerator<NumberedEvent> {
      yield { seq: stored.lastSeq ?? 1, event: 'done', answer: await answer };
    }
    return { events, readBy: () => undefined, answer };
  }

  function startAnswer(actor: RequestActor, open: OpenRound): AnswerRun {
    const { chat, round, leaseOwner: streamId } = open;
    const stream = { orgId: chat.orgId, chatId: chat.id, round, streamId };
    const readers = watchReaders(stream, rounds, logger);
    const measure = measureRound(metrics);
    const log = createRoundLog(open.attempt, (event) => {
      measure(event);
      recorder.record(stream, event);
    });
    const answer = answerRound(actor, open, log, readers.signal).finally(readers.stop);
    const ended = answer.then(
      (written) => log.end({ event: 'done', answer: written }),
      (error: unknown) => log.end({ event: 'error', ...reasonOf(error) }),
    );
    trackUntilDone(ended);
    const readBy = onDisconnect === 'cancel' ? readers.readBy : () => undefined;
    return { events: log.read, readBy, answer };
  }

  /** Answers an open round under its lease. Stops when the lease, the user's rights or the readers are lost. */
  async function answerRound(
    actor: RequestActor,
    open: OpenRound,
    log: RoundLog,
    abandoned: AbortSignal,
  ): Promise<ChatAnswer> {
    const { chat, round, leaseOwner } = open;
    const key = { chatId: chat.id, round };
    const lease = keepLease(key, leaseOwner, rounds, logger);
    // The answer may already use documents that the user may no longer read.
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
    // The job that scores the round is not awaited: the answer is stored, and chat works while Temporal is down.
    trackUntilDone(scoringRequests.nudge(chat.id));
    return presenter.fresh(open, written);
  }

  /** Closes a failed round, and retries while the database is down: a repeated message needs the round closed. */
  async function closeFailed({ chat, round, leaseOwner, attempt }: OpenRound, code: string): Promise<void> {
    const close = () => rounds.fail({ chatId: chat.id, round }, leaseOwner, code, failureSeq(attempt));
    const closeLater = async () => {
      for (const leaseEnd = Date.now() + leaseSeconds * 1_000; Date.now() < leaseEnd; ) {
        await delay(closeRetryMs, undefined, { signal: shutdown.signal });
        const isClosed = await close().then(
          () => true,
          () => false,
        );
        if (isClosed) return;
      }
    };
    await close().catch((error: unknown) => {
      logger.warn({ err: error, chatId: chat.id, round }, 'closing a failed round failed, trying again');
      // If all retries fail, the round ends as interrupted when its lease expires.
      trackUntilDone(closeLater());
    });
  }

  /** Clients see the code of a catalogued error, and of any other error only that it happened. */
  function reasonOf(error: unknown): { code: string; detail: string } {
    const known =
      error instanceof AppError ? error : appError(isOutage(error) ? 'service_unavailable' : 'internal_error');
    return { code: known.code, detail: known.message };
  }

  /** Lets `drain` wait for background work, whose failures are handled elsewhere. */
  function trackUntilDone(work: Promise<unknown>): void {
    const settled: Promise<void> = Promise.allSettled([work]).then(() => {
      running.delete(settled);
    });
    running.add(settled);
  }

  async function lockOwn(trx: Knex, actor: Actor, chatId: string): Promise<Chat> {
    return requireWritable(actor, await createChatRepository(trx).lock(actor.orgId, chatId), 'change');
  }

  return {
    /**
     * Stores the message and starts to answer it. Throws if the message is refused; a later failure ends the round.
     * Sending the message of a failed round again answers that round.
     */
    async send(actor: RequestActor, message: Message): Promise<RoundRun> {
      if (isDraining) throw restarting();
      const begun = begin(actor, message);
      trackUntilDone(begun);
      return begun;
    },

    replay: createRoundReplay({ db, follower, presenter, logger }),

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

    /** The title that the model proposes later does not replace this one. Throws `precondition_failed`. */
    async rename(actor: Actor, chatId: string, title: string, expected: ExpectedVersions): Promise<ChatSummary> {
      return db.transaction(async (trx) => {
        requireExpectedVersion(expected, await lockOwn(trx, actor, chatId));
        const repository = createChatRepository(trx);
        await repository.rename(chatId, title);
        const renamed = await repository.findReadable(actor, chatId);
        if (renamed === undefined) throw appError('chat_not_found');
        return renamed;
      });
    },

    /**
     * Deletes a chat with its rounds, scores, stored responses and job. An answer that is being written is interrupted.
     */
    async remove(actor: Actor, chatId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const chat = await lockOwn(trx, actor, chatId);
        await createChatRepository(trx).delete(chat);
      });
    },

    /** Ends the rounds of a dead process, at most 20 s after its last lease renewal. The sweeper calls it. */
    async closeExpiredRounds(): Promise<void> {
      const closed = await rounds.failExpired('interrupted');
      if (closed > 0) logger.warn({ rounds: closed }, 'rounds of a dead process were ended');
    },

    forgetEvents: () => roundEvents.deleteOld(),

    /** Refuses new messages, lets running answers finish within `graceMs`, and then interrupts them. */
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

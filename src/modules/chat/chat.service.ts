import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { draftNameOrDefault } from '#src/domain/agents/drafts.ts';
import { AppError, appError, fieldError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { ChatScoringQueueService } from '#src/modules/alignment/scoring-requests.service.ts';
import type { AuthService } from '#src/modules/auth/auth.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { Metrics } from '#src/ports/telemetry.ts';
import { type ChatAnswerWriter, createChatAnswerPresenter, type LeasedOpenRound } from './answer.ts';
import {
  type Chat,
  type ChatAnswer,
  type ChatHistory,
  type ChatSummary,
  type CompletedAnswer,
  errorEventSeq,
  type NumberedRoundEvent,
  type Round,
} from './chat.model.ts';
import { type ChatFilter, createChatRepository } from './chat.repository.ts';
import { createRoundEventsRepository } from './round-events.repository.ts';
import { createRoundsRepository } from './rounds.repository.ts';
import {
  type ChatRoundOpener,
  createRoundEventReplay,
  keepRoundLease,
  requireWritableChat,
  roundLeaseSeconds,
  type SendMessageInput,
} from './rounds.ts';
import {
  type ClientDisconnectPolicy,
  createRoundEventFollower,
  createRoundEventLog,
  createRoundEventRecorder,
  createRoundMetrics,
  type RoundEventLog,
  watchAnswerReaders,
  watchUserRights,
} from './stream.ts';

const closeRetryMs = 500;

type RoundRun = {
  chatId: string;
  round: number;
  isNewChat: boolean;
  events(): AsyncIterable<NumberedRoundEvent>;
  /**
   * Registers the client whose disconnect may cancel the answer; does nothing unless the setting `STREAM_ON_DISCONNECT`
   * is `cancel`.
   */
  readBy(closed: AbortSignal): void;
  answer: Promise<ChatAnswer>;
};

type AnswerRun = Pick<RoundRun, 'events' | 'readBy' | 'answer'>;

export type ChatService = ReturnType<typeof createChatService>;

export function createChatService(deps: {
  db: Knex;
  openRound: ChatRoundOpener;
  writeAnswer: ChatAnswerWriter;
  retrieval: Pick<RetrievalService, 'unreadableDocuments'>;
  scoringRequests: Pick<ChatScoringQueueService, 'nudge'>;
  accounts: Pick<AuthService, 'findActor'>;
  echoWaitMs: number;
  onDisconnect: ClientDisconnectPolicy;
  isOutage: (error: unknown) => boolean;
  metrics: Pick<Metrics, 'count' | 'time'>;
  logger: Logger;
}) {
  const { db, openRound, writeAnswer, retrieval, scoringRequests, accounts, echoWaitMs, onDisconnect, isOutage } = deps;
  const { metrics, logger } = deps;
  const chats = createChatRepository(db);
  const rounds = createRoundsRepository(db);
  const roundEvents = createRoundEventsRepository(db);
  const recorder = createRoundEventRecorder({ events: roundEvents, isOutage, logger });
  const follower = createRoundEventFollower({
    events: roundEvents,
    rounds,
    recordsFollowers: onDisconnect === 'cancel',
    logger,
  });
  const presenter = createChatAnswerPresenter({ db, echoWaitMs, logger });
  const shutdown = new AbortController();
  let isDraining = false;
  const running = new Set<Promise<void>>();

  async function begin(actor: RequestActor, message: SendMessageInput): Promise<RoundRun> {
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

  async function refuseUnreadable(actor: Actor, message: SendMessageInput): Promise<void> {
    for (const [path, ids] of [
      ['include_document_ids', message.ragIncludeDocumentIds],
      ['exclude_document_ids', message.ragExcludeDocumentIds],
    ] as const) {
      if (ids === null) continue;
      const [unreadable] = await retrieval.unreadableDocuments(actor, ids);
      if (unreadable === undefined) continue;
      throw fieldError(
        `${path}.${ids.indexOf(unreadable)}`,
        'must be the id of a document that you can read',
        'document_not_found',
      );
    }
  }

  function runOfStored(chat: Chat, stored: Round): AnswerRun {
    const answer = presenter.stored(chat, stored);
    async function* events(): AsyncGenerator<NumberedRoundEvent> {
      yield { seq: stored.lastSeq ?? 1, event: 'done', answer: await answer };
    }
    return { events, readBy: () => undefined, answer };
  }

  function startAnswer(actor: RequestActor, open: LeasedOpenRound): AnswerRun {
    const { chat, round, leaseOwner: streamId } = open;
    const stream = { orgId: chat.orgId, chatId: chat.id, round, streamId };
    const readers = watchAnswerReaders(stream, rounds, logger);
    const measure = createRoundMetrics(metrics);
    const log = createRoundEventLog(open.attempt, (event) => {
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

  /** Answers a round while renewing its lease. Stops if lease or user rights are lost, or no client reads. */
  async function answerRound(
    actor: RequestActor,
    open: LeasedOpenRound,
    log: RoundEventLog,
    abandoned: AbortSignal,
  ): Promise<ChatAnswer> {
    const { chat, round, leaseOwner } = open;
    const key = { chatId: chat.id, round };
    const lease = keepRoundLease(key, leaseOwner, rounds, logger);
    // Stops the answer when the user loses rights, because it may already use documents that the user can no longer
    // read.
    const onLoss = async () => appError('interrupted', { detail: 'Your rights have changed. Send the message again.' });
    const rights = watchUserRights(actor, { findActor: () => accounts.findActor(actor.userId), onLoss, logger });
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
    const { latencyMs, inputTokens, completionTokens, citations } = written;
    const answered = { ...key, latencyMs, inputTokens, completionTokens };
    logger.info({ ...answered, citations: citations.length, requestId: actor.requestId }, 'a round was answered');
    // Does not wait for the scoring job: the answer is stored, and chat must work while Temporal is down.
    if (chat.draftVersionId === null) trackUntilDone(scoringRequests.nudge(chat.id));
    return presenter.fresh(open, written);
  }

  /** Ends a failed round, retrying while the database is down: an open round blocks new messages. */
  async function closeFailed({ chat, round, leaseOwner, attempt }: LeasedOpenRound, code: string): Promise<void> {
    const close = () => rounds.fail({ chatId: chat.id, round }, leaseOwner, code, errorEventSeq(attempt));
    const closeLater = async () => {
      for (const leaseEnd = Date.now() + roundLeaseSeconds * 1_000; Date.now() < leaseEnd; ) {
        await delay(closeRetryMs, undefined, { signal: shutdown.signal });
        const isClosed = await close().then(
          () => true,
          () => false,
        );
        if (isClosed) return;
      }
    };
    await close().catch((error: unknown) => {
      logger.warn({ err: error, chatId: chat.id, round }, 'marking a round as failed was not possible, retrying');
      // Retries in the background. If no retry succeeds before the round's lease expires, the sweeper ends the round as
      // interrupted.
      trackUntilDone(closeLater());
    });
  }

  /** Code and detail of an error for clients; unexpected errors become `service_unavailable` or `internal_error`. */
  function reasonOf(error: unknown): { code: string; detail: string } {
    const known =
      error instanceof AppError ? error : appError(isOutage(error) ? 'service_unavailable' : 'internal_error');
    return { code: known.code, detail: known.message };
  }

  /** Makes a shutdown wait until background work has ended, whether it succeeds or fails. */
  function trackUntilDone(work: Promise<unknown>): void {
    const settled: Promise<void> = Promise.allSettled([work]).then(() => {
      running.delete(settled);
    });
    running.add(settled);
  }

  async function partnerOf(chat: Chat): Promise<Pick<ChatHistory, 'agentName' | 'isAgentDeleted'>> {
    if (chat.draftVersionId !== null) {
      const version = await chats.findDraftVersion(chat.orgId, chat.draftVersionId);
      return { agentName: draftNameOrDefault(version?.agentName ?? ''), isAgentDeleted: false };
    }
    const agent = await chats.findAgent(chat.orgId, chat.agentId);
    return { agentName: agent?.agentName ?? '', isAgentDeleted: agent === undefined || agent.deletedAt !== null };
  }

  async function lockOwn(trx: Knex, actor: Actor, chatId: string): Promise<Chat> {
    return requireWritableChat(actor, await createChatRepository(trx).lock(actor.orgId, chatId), 'change');
  }

  return {
    /**
     * Stores the message and starts to answer it. Throws if the message is refused; a failure after that ends the
     * round. Sending a failed round's message again retries that round.
     */
    async send(actor: RequestActor, message: SendMessageInput): Promise<RoundRun> {
      if (isDraining) throw restarting();
      const begun = begin(actor, message);
      trackUntilDone(begun);
      return begun;
    },

    replay: createRoundEventReplay({ db, follower, presenter, logger }),

    async list(actor: Actor, filter: ChatFilter, page: { limit: number; after: ListPosition | null }) {
      const [{ items, last }, total] = await Promise.all([chats.list(actor, filter, page), chats.count(actor, filter)]);
      return { items, last, total };
    },

    async history(actor: Actor, chatId: string): Promise<ChatHistory> {
      const chat = await chats.findReadable(actor, chatId);
      if (chat === undefined) throw appError('chat_not_found');
      const [partner, all] = await Promise.all([partnerOf(chat), rounds.list(chat.id)]);
      return { chat, rounds: all, ...partner };
    },

    /** Sets a title that generated titles do not replace. Throws `precondition_failed`. */
    async rename(actor: Actor, chatId: string, title: string, expected: IfMatchVersions): Promise<ChatSummary> {
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
     * Deletes a chat with its rounds, scores, stored responses and job, and interrupts an answer that is being written.
     */
    async remove(actor: Actor, chatId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const chat = await lockOwn(trx, actor, chatId);
        await createChatRepository(trx).delete(chat.orgId, [chat.id]);
      });
    },

    /** Ends open rounds of dead processes, at most 20 s after the last renewal of the lease. Run by the sweeper. */
    async closeExpiredRounds(): Promise<void> {
      const closed = await rounds.failExpired('interrupted');
      if (closed > 0) logger.warn({ rounds: closed }, 'ended open rounds of dead processes');
    },

    forgetEvents: () => roundEvents.deleteOld(),

    /** For a shutdown: refuses new messages, lets answers finish within `graceMs`, then interrupts them. */
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

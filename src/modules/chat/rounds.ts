import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v5 as uuidV5, v7 as uuidV7 } from 'uuid';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, Visibility } from '#src/domain/access/visibility.ts';
import { isBlank, isOneLine } from '#src/domain/text/plain-text.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { ChatAnswerPresenter } from './answer.ts';
import {
  type Chat,
  type ChatAgent,
  errorEventSeq,
  eventSeqBeforeAttempt,
  isLastRoundEvent,
  type NumberedRoundEvent,
  type RagSettings,
  type Round,
  type RoundKey,
} from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';
import { createChatPartnerFinder } from './chat-partners.ts';
import { requireFitsContextWindow } from './prompt.ts';
import { createRoundsRepository, type RoundsRepository } from './rounds.repository.ts';
import { type RoundEventFollower, watchUserRights } from './stream.ts';

/**
 * Duration of a round's lease: long enough that the answering process may miss one or two renewals, short enough that
 * the round of a dead process ends within 20 s.
 */
export const roundLeaseSeconds = 15;
const renewEveryMs = 5_000;

/** UUID namespace of chat ids from Idempotency-Keys, so that a repeated request finds the chat that it created. */
const chatIdNamespace = '5f0c2f52-9c8e-4a3b-8a35-2d2f3e6a0c11';

export type SendMessageInput = RagSettings & {
  text: string;
  chatId: string | null;
  agentId: string | null;
  draftVersionId: string | null;
  visibility: Visibility | null;
  teamIds: string[];
  idempotencyKey: string | null;
};

/** A round that this process must answer, or a round that an earlier attempt of the same request completed. */
type OpenedRound =
  | { outcome: 'opened'; chat: Chat; agent: ChatAgent; round: number; leaseOwner: string; attempt: number }
  | { outcome: 'answered'; chat: Chat; round: Round };

export type ChatRoundOpener = ReturnType<typeof createChatRoundOpener>;

/**
 * Stores a user's message as an open round under a lease, before any model is called. Throws `context_too_long`, and
 * stores nothing, if the message does not fit into the context window of the agent's model.
 */
export function createChatRoundOpener(deps: {
  db: Knex;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'contextWindow' | 'chatModels' | 'chatModelOrDefault'>;
  tokenCounter: TokenCounter;
}) {
  const { db, teams, models, tokenCounter } = deps;
  const partners = createChatPartnerFinder({ db, models });

  async function startChat(actor: Actor, message: SendMessageInput): Promise<OpenedRound> {
    const { agent, draftVersionId } = await partners.ofNewChat(actor, message);
    const scope = await teams.grantScope(db, actor, {
      visibility: message.visibility ?? 'personal',
      teamIds: message.teamIds,
    });
    await refuseTooLong(agent, message.text);
    return db.transaction(async (trx) => {
      const chats = createChatRepository(trx);
      if (draftVersionId !== null && !(await chats.holdDraftVersion(actor.orgId, draftVersionId))) {
        throw appError('version_not_found');
      }
      const idOfKey = chatIdOf(actor, message);
      const existing = idOfKey === null ? undefined : await chats.lock(actor.orgId, idOfKey);
      if (existing?.agentId === agent.id && existing.draftVersionId === draftVersionId) {
        const first = await createRoundsRepository(trx).find({ chatId: existing.id, round: 1 });
        if (first?.userContent === message.text) return nextRound(trx, existing, agent, message);
      }
      // The chat id is derived from the Idempotency-Key. If a chat with this id exists although the stored response of
      // the key has expired, the key may be used again, but the new chat gets another id.
      const chatId = idOfKey === null || existing !== undefined ? uuidV7() : idOfKey;
      const isNew = await chats.insert({
        id: chatId,
        orgId: actor.orgId,
        agentId: agent.id,
        draftVersionId,
        title: titleFromMessage(message.text),
        titleSource: 'message',
        ...scope,
        ...ragSettings(message),
        createdBy: actor.userId,
      });
      const chat = await chats.lock(actor.orgId, chatId);
      if (chat === undefined) throw appError('chat_not_found');
      // A request with the same Idempotency-Key to the other message route has just created this chat. Each route
      // detects repeated requests only among its own.
      if (!isNew) throw appError('idempotency_in_flight', { retryAfterSeconds: 1 });
      return openRound(trx, chat, agent, 1, message);
    });
  }

  async function continueChat(actor: Actor, chatId: string, message: SendMessageInput): Promise<OpenedRound> {
    const readable = requireWritableChat(actor, await createChatRepository(db).findReadable(actor, chatId));
    const { agent } = await partners.ofChat(actor, readable, message);
    await refuseTooLong(agent, message.text);
    return db.transaction(async (trx) => {
      const chat = requireWritableChat(actor, await createChatRepository(trx).lock(actor.orgId, chatId));
      return nextRound(trx, chat, agent, message);
    });
  }

  /**
   * Checks the message against the model's context window, which may call the provider. Call it outside of a
   * transaction, whose locks would be held meanwhile.
   */
  async function refuseTooLong(agent: ChatAgent, question: string): Promise<void> {
    const { agentPrompt: persona, chatModel, maxTokens } = agent;
    const window = await models.contextWindow(chatModel);
    requireFitsContextWindow({ persona, question, window, maxTokens }, tokenCounter);
  }

  /**
   * Reopens the newest round if it failed with the same message; otherwise opens the round with the next number. A
   * completed round with the same Idempotency-Key and message is returned instead.
   */
  async function nextRound(trx: Knex, chat: Chat, agent: ChatAgent, message: SendMessageInput): Promise<OpenedRound> {
    const rounds = createRoundsRepository(trx);
    await rounds.failExpired('interrupted', chat.id);
    const newest = await rounds.findNewest(chat.id);
    if (newest?.status === 'open') throw appError('round_in_progress');

    const { idempotencyKey } = message;
    const repeated = idempotencyKey === null ? undefined : await rounds.findByIdempotencyKey(chat.id, idempotencyKey);
    if (repeated?.status === 'complete' && repeated.userContent === message.text) {
      return { outcome: 'answered', chat, round: repeated };
    }
    // Idempotency-Keys are unique within a chat. If an older round with another message has the same key, the new round
    // is stored without the key.
    const withKeyFor = (round: number): SendMessageInput =>
      repeated === undefined || repeated.round === round ? message : { ...message, idempotencyKey: null };

    if (newest?.status === 'error' && newest.userContent === message.text) {
      return openRound(trx, chat, agent, newest.round, withKeyFor(newest.round), newest.attempt + 1);
    }
    const next = (newest?.round ?? 0) + 1;
    return openRound(trx, chat, agent, next, withKeyFor(next));
  }

  async function openRound(
    trx: Knex,
    chat: Chat,
    agent: ChatAgent,
    round: number,
    message: SendMessageInput,
    attempt = 0,
  ): Promise<OpenedRound> {
    const rounds = createRoundsRepository(trx);
    const lease = { owner: uuidV7(), seconds: roundLeaseSeconds };
    const { idempotencyKey } = message;
    const model = agent.chatModel;
    if (attempt > 0) await rounds.reopen({ chatId: chat.id, round }, { model, idempotencyKey }, lease);
    else {
      const userContent = message.text;
      await rounds.open({ orgId: chat.orgId, chatId: chat.id, round, userContent, model, idempotencyKey }, lease);
    }
    const settings = ragSettings(message);
    await createChatRepository(trx).recordMessage(chat.id, { round, ...settings });
    const current = { ...chat, ...settings, roundCount: round };
    return { outcome: 'opened', chat: current, agent, round, leaseOwner: lease.owner, attempt };
  }

  return (actor: Actor, message: SendMessageInput): Promise<OpenedRound> =>
    message.chatId === null ? startChat(actor, message) : continueChat(actor, message.chatId, message);
}

/**
 * Throws `chat_not_found` for a chat that the caller cannot read, and `forbidden` for a chat that another user started.
 * @param action the refused action, named in the error detail
 */
export function requireWritableChat(
  actor: Actor,
  chat: Chat | undefined,
  action: 'write to' | 'change' = 'write to',
): Chat {
  if (chat === undefined || !mayPerformAction(actor, 'chat:read', chat)) throw appError('chat_not_found');
  if (mayPerformAction(actor, 'chat:write', chat)) return chat;
  throw appError('forbidden', { detail: `Only the user who started a chat can ${action} it.` });
}

function chatIdOf(actor: Actor, { idempotencyKey }: SendMessageInput): string | null {
  return idempotencyKey === null ? null : uuidV5(`${actor.userId} ${idempotencyKey}`, chatIdNamespace);
}

function ragSettings(message: SendMessageInput): RagSettings {
  const { ragEnabled, ragReranking, ragRerankingType, ragIncludeDocumentIds, ragExcludeDocumentIds } = message;
  return { ragEnabled, ragReranking, ragRerankingType, ragIncludeDocumentIds, ragExcludeDocumentIds };
}

const titleCharacters = 60;
/** Title of a chat whose first message has no visible characters at its beginning. */
const fallbackTitle = 'Chat';

/** Matches terminal color codes and invisible characters, except the joiners that emoji and some scripts need. */
const unseen = /(?!\s)\p{Cc}\[[\d;]*[a-z]|[\u00ad\u061c\u200b\u200e\u200f\u2060-\u2064\ufeff]|[\u{e0000}-\u{e007f}]/giu;

export function titleFromMessage(message: string): string {
  const line = [...message.replace(unseen, '').replace(/\s+/g, ' ')].filter(isOneLine).join('').trim();
  const title = [...line].slice(0, titleCharacters).join('').trim();
  return isBlank(title) ? fallbackTitle : title;
}

/** Renews a round's lease until `stop`. Aborts `signal` if another process owns the round and its answer. */
export function keepRoundLease(
  round: RoundKey,
  owner: string,
  rounds: Pick<RoundsRepository, 'renewLease'>,
  logger: Logger,
): { signal: AbortSignal; stop(): void } {
  const lost = new AbortController();
  const timer = setInterval(() => {
    rounds.renewLease(round, { owner, seconds: roundLeaseSeconds }).then(
      (isHeld) => {
        if (!isHeld) lost.abort(appError('interrupted'));
      },
      // A failed renewal is only logged: a later one may succeed before the lease expires; if not, storing the answer
      // fails.
      (error: unknown) => logger.warn({ err: error }, 'renewing the lease of a round failed'),
    );
  }, renewEveryMs);
  return {
    signal: lost.signal,
    stop: () => clearInterval(timer),
  };
}

export type RoundEventPosition = { round: number; seq: number };

/**
 * `events` ends after the last event or when `until` is aborted. It throws `chat_not_found` once the user, with the
 * rights that `actorNow` returns, can no longer read the chat.
 */
type ReplayedRound = {
  round: number;
  events(until: AbortSignal, actorNow: () => Promise<Actor>): AsyncIterable<NumberedRoundEvent>;
};

/**
 * Replays the events of an answer, whichever process wrote it. Later than a minute after the end of the answer, replays
 * only its last event.
 */
export function createRoundEventReplay(deps: {
  db: Knex;
  follower: RoundEventFollower;
  presenter: Pick<ChatAnswerPresenter, 'stored'>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, follower, presenter, logger } = deps;
  const rounds = createRoundsRepository(db);

  async function* eventsFor(
    actor: Actor,
    chat: Chat,
    read: (until: AbortSignal) => AsyncGenerator<NumberedRoundEvent>,
    { until, actorNow }: { until: AbortSignal; actorNow: () => Promise<Actor> },
  ): AsyncGenerator<NumberedRoundEvent> {
    const onLoss = async (now: Actor) => {
      const isReadable = (await createChatRepository(db).findReadable(now, chat.id)) !== undefined;
      return isReadable ? null : appError('chat_not_found');
    };
    const rights = watchUserRights(actor, { findActor: actorNow, onLoss, logger });
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

  async function* eventsAfter(
    chat: Chat,
    round: Round,
    afterSeq: number,
    signal: AbortSignal,
  ): AsyncGenerator<NumberedRoundEvent> {
    const { chatId, streamId, attempt } = round;
    if (afterSeq > 0 && afterSeq < eventSeqBeforeAttempt(attempt)) {
      yield unfinished(attempt - 1);
      return;
    }
    let last = Math.max(afterSeq, eventSeqBeforeAttempt(attempt));
    if (streamId !== null) {
      for await (const event of follower.follow({ chatId, round: round.round, streamId }, afterSeq, signal)) {
        yield event;
        last = event.seq;
        if (isLastRoundEvent(event)) return;
      }
    }
    if (!signal.aborted) yield lastEventOf(chat, round, last + 1);
  }

  /** Builds the last event from the stored round if the stored events lack it or another attempt has begun. */
  async function lastEventOf(
    chat: Chat,
    { chatId, round, streamId, attempt }: Round,
    seq: number,
  ): Promise<NumberedRoundEvent> {
    const now = await rounds.find({ chatId, round });
    if (now === undefined || streamId === null || now.streamId !== streamId) return unfinished(attempt);
    if (now.status === 'complete') {
      return { seq: now.lastSeq ?? seq, event: 'done', answer: await presenter.stored(chat, now) };
    }
    return unfinished(attempt, now.errorCode ?? undefined);
  }

  function unfinished(attempt: number, code = 'interrupted'): NumberedRoundEvent {
    return { seq: errorEventSeq(attempt), event: 'error', code, detail: 'The answer was not finished.' };
  }

  /**
   * Replays the events after `position`; without a position, all events of the newest round. Returns null if no event
   * remains: the chat has no message, or the client already has the last event.
   */
  return async (actor: Actor, chatId: string, position: RoundEventPosition | null): Promise<ReplayedRound | null> => {
    const chat = await createChatRepository(db).findReadable(actor, chatId);
    if (chat === undefined) throw appError('chat_not_found');
    const round =
      position === null ? await rounds.findNewest(chatId) : await rounds.find({ chatId, round: position.round });
    if (round === undefined) {
      if (position === null) return null;
      throw appError('malformed_request', { detail: 'This chat has no round with the number in `Last-Event-ID`.' });
    }
    const afterSeq = position?.seq ?? 0;
    const hasLastEvent = round.status !== 'open' && afterSeq >= (round.lastSeq ?? errorEventSeq(round.attempt));
    const hasLastOfPreviousAttempt = afterSeq > 0 && afterSeq === eventSeqBeforeAttempt(round.attempt);
    if (hasLastEvent || hasLastOfPreviousAttempt) return null;
    const read = (until: AbortSignal) => eventsAfter(chat, round, afterSeq, until);
    const events: ReplayedRound['events'] = (until, actorNow) => eventsFor(actor, chat, read, { until, actorNow });
    return { round: round.round, events };
  };
}

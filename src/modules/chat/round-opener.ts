import type { Knex } from 'knex';
import { v5 as uuidV5, v7 as uuidV7 } from 'uuid';
import { can } from '#src/domain/access/policy.ts';
import type { Actor, Visibility } from '#src/domain/access/visibility.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Chat, ChatAgent, RagSettings, Round } from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';
import { messageTitle } from './chat-title.ts';
import { requireRoom } from './prompt.ts';
import { leaseSeconds } from './round-lease.ts';
import { createRoundsRepository } from './rounds.repository.ts';

/** Makes chat ids of requests with an Idempotency-Key, so that the repeated request finds the chat of the first. */
const chatIdNamespace = '5f0c2f52-9c8e-4a3b-8a35-2d2f3e6a0c11';

export type Message = RagSettings & {
  text: string;
  chatId: string | null;
  agentId: string | null;
  visibility: Visibility | null;
  teamIds: string[];
  idempotencyKey: string | null;
};

/** Either a round of ours to answer now, or the round that an earlier attempt of the same request completed. */
export type OpenedRound =
  | { outcome: 'opened'; chat: Chat; agent: ChatAgent; round: number; leaseOwner: string; attempt: number }
  | { outcome: 'answered'; chat: Chat; round: Round };

export type RoundOpener = ReturnType<typeof createRoundOpener>;

/**
 * Stores a user's message as an open round under a lease, before any model is called. A message that the agent's model
 * could not read is refused with `context_too_long`, and nothing is stored.
 */
export function createRoundOpener(deps: {
  db: Knex;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'contextWindow'>;
  tokenCounter: TokenCounter;
}) {
  const { db, teams, models, tokenCounter } = deps;

  /** Asks a provider and counts at length: not for a transaction, whose locks and connection others wait for. */
  async function refuseTooLong(agent: ChatAgent, question: string): Promise<void> {
    const { agentPrompt: persona, chatModel, maxTokens } = agent;
    const window = await models.contextWindow(chatModel);
    requireRoom({ persona, question, window, maxTokens }, tokenCounter);
  }

  async function startChat(actor: Actor, message: Message): Promise<OpenedRound> {
    const agent = await createChatRepository(db).findAgent(actor.orgId, message.agentId ?? '');
    if (agent === undefined || agent.deletedAt !== null || !can(actor, 'agent:read', agent))
      throw appError('agent_not_found');
    const scope = await teams.grantScope(db, actor, {
      visibility: message.visibility ?? 'personal',
      teamIds: message.teamIds,
    });
    await refuseTooLong(agent, message.text);
    return db.transaction(async (trx) => {
      const chats = createChatRepository(trx);
      const idOfKey = chatIdOf(actor, message);
      const existing = idOfKey === null ? undefined : await chats.lock(actor.orgId, idOfKey);
      if (existing?.agentId === agent.id) {
        const first = await createRoundsRepository(trx).find({ chatId: existing.id, round: 1 });
        if (first?.userContent === message.text) return nextRound(trx, existing, agent, message);
      }
      // A key that was used for another chat long ago, when the answers of that time are forgotten, names nothing.
      const chatId = idOfKey === null || existing !== undefined ? uuidV7() : idOfKey;
      const isNew = await chats.insert({
        id: chatId,
        orgId: actor.orgId,
        agentId: agent.id,
        title: messageTitle(message.text),
        titleSource: 'message',
        ...scope,
        ...ragSettings(message),
        createdBy: actor.userId,
      });
      const chat = await chats.lock(actor.orgId, chatId);
      if (chat === undefined) throw appError('chat_not_found');
      // The same key came to both addresses of messages at once, each of which knows of its own requests only.
      if (!isNew) throw appError('idempotency_in_flight', { retryAfterSeconds: 1 });
      return openRound(trx, chat, agent, 1, message);
    });
  }

  async function continueChat(actor: Actor, chatId: string, message: Message): Promise<OpenedRound> {
    const { agentId } = requireWritable(actor, await createChatRepository(db).findReadable(actor, chatId));
    if (message.agentId !== null && message.agentId !== agentId) {
      throw fieldError('agent_id', 'is not the agent of this chat');
    }
    const agent = await createChatRepository(db).findAgent(actor.orgId, agentId);
    if (agent === undefined || agent.deletedAt !== null) throw appError('agent_deleted');
    if (!can(actor, 'agent:read', agent)) throw appError('agent_not_found');
    await refuseTooLong(agent, message.text);
    return db.transaction(async (trx) => {
      const chat = requireWritable(actor, await createChatRepository(trx).lock(actor.orgId, chatId));
      return nextRound(trx, chat, agent, message);
    });
  }

  /** The same message again goes on with the round that failed; numbers stay contiguous either way. */
  async function nextRound(trx: Knex, chat: Chat, agent: ChatAgent, message: Message): Promise<OpenedRound> {
    const rounds = createRoundsRepository(trx);
    await rounds.failExpired('interrupted', chat.id);
    const newest = await rounds.findNewest(chat.id);
    if (newest?.status === 'open') throw appError('round_in_progress');

    const { idempotencyKey } = message;
    const repeated = idempotencyKey === null ? undefined : await rounds.findByIdempotencyKey(chat.id, idempotencyKey);
    if (repeated?.status === 'complete' && repeated.userContent === message.text) {
      return { outcome: 'answered', chat, round: repeated };
    }
    // A key that an older round still holds was meant for another message: it names nothing any more.
    const withKeyFor = (round: number): Message =>
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
    message: Message,
    attempt = 0,
  ): Promise<OpenedRound> {
    const rounds = createRoundsRepository(trx);
    const lease = { owner: uuidV7(), seconds: leaseSeconds };
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

  return (actor: Actor, message: Message): Promise<OpenedRound> =>
    message.chatId === null ? startChat(actor, message) : continueChat(actor, message.chatId, message);
}

function requireWritable(actor: Actor, chat: Chat | undefined): Chat {
  if (chat === undefined || !can(actor, 'chat:read', chat)) throw appError('chat_not_found');
  if (can(actor, 'chat:write', chat)) return chat;
  throw appError('forbidden', { detail: 'Only the one who started a chat can write to it.' });
}

function chatIdOf(actor: Actor, { idempotencyKey }: Message): string | null {
  return idempotencyKey === null ? null : uuidV5(`${actor.userId} ${idempotencyKey}`, chatIdNamespace);
}

function ragSettings(message: Message): RagSettings {
  const { ragEnabled, ragReranking, ragRerankingType, ragIncludeDocumentIds, ragExcludeDocumentIds } = message;
  return { ragEnabled, ragReranking, ragRerankingType, ragIncludeDocumentIds, ragExcludeDocumentIds };
}

import { newestFirst, toPage } from '#src/adapters/postgres/keyset.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { Chat, ChatAgent, ChatSummary, NewChat, RagSettings } from './chat.model.ts';

export type ChatFilter = { agentId?: string | undefined; mine: boolean };

export function createChatRepository(db: Db) {
  const readable = (actor: Actor, filter: ChatFilter = { mine: false }) =>
    readableBy(db<Chat>('chats'), actor, 'chats').where({
      ...(filter.agentId !== undefined && { agentId: filter.agentId }),
      ...(filter.mine && { createdBy: actor.userId }),
    });

  const scoringPending = () =>
    db.raw(
      `exists (select 1 from rounds r
               where r.chat_id = chats.id and r.status = 'complete' and r.scored_at is null) as scoring_pending`,
    );

  return {
    /** False when there is one of this id, whose transaction was waited for. */
    async insert(chat: NewChat): Promise<boolean> {
      return (await db('chats').insert(chat).onConflict('id').ignore().returning('id')).length > 0;
    },

    /** Takes the row's lock: whoever changes a chat's rounds holds it, so that two writers cannot cross. */
    async lock(orgId: string, chatId: string): Promise<Chat | undefined> {
      return db<Chat>('chats').where({ orgId, id: chatId }).forUpdate().first();
    },

    async findReadable(actor: Actor, chatId: string): Promise<ChatSummary | undefined> {
      return readable(actor).where({ id: chatId }).first('chats.*', scoringPending());
    },

    async findTitle(orgId: string, chatId: string): Promise<string | undefined> {
      return (await db<Chat>('chats').where({ orgId, id: chatId }).first('title'))?.title;
    },

    async list(
      actor: Actor,
      filter: ChatFilter,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ChatSummary[]; last: ListPosition | null }> {
      const rows: (ChatSummary & { sortKey: string })[] = await newestFirst(
        readable(actor, filter).select('chats.*', scoringPending()),
        { ...page, time: 'chats.updatedAt', id: 'chats.id' },
      );
      return toPage(rows, page.limit);
    },

    async count(actor: Actor, filter: ChatFilter): Promise<number> {
      const row = await readable(actor, filter).count({ total: '*' }).first();
      return Number(row?.total ?? 0);
    },

    /** A new message: its settings become the chat's. */
    async recordMessage(chatId: string, change: { round: number } & RagSettings): Promise<void> {
      const { round, ...settings } = change;
      await db('chats')
        .where({ id: chatId })
        .update({ ...settings, roundCount: round, updatedAt: db.fn.now() });
    },

    async rename(chatId: string, title: string): Promise<void> {
      await db('chats').where({ id: chatId }).update({ title, titleSource: 'user', updatedAt: db.fn.now() });
    },

    /** With its rounds, the job that scores them, and the answers that were kept for repeated requests. */
    async delete({ orgId, id }: Pick<Chat, 'orgId' | 'id'>): Promise<void> {
      await db.raw(
        `delete from idempotency_keys k using rounds r, chats c
         where c.org_id = :orgId and c.id = :id and r.chat_id = c.id
           and k.user_id = c.created_by and k.key = r.idempotency_key and k.route in ('POST /chat', 'POST /chat/stream')`,
        { orgId, id },
      );
      await db('jobs').where({ orgId, chatId: id }).delete();
      await db('chats').where({ orgId, id }).delete();
      // After its rounds: no process can store more of them.
      await db('round_events').where({ orgId, chatId: id }).delete();
    },

    async recordAnswer(
      chatId: string,
      usage: { inputTokens: number; completionTokens: number; latencyMs: number },
    ): Promise<void> {
      await db('chats')
        .where({ id: chatId })
        .update({
          inputTokens: db.raw('input_tokens + ?', [usage.inputTokens]),
          completionTokens: db.raw('completion_tokens + ?', [usage.completionTokens]),
          latencyMs: usage.latencyMs,
          updatedAt: db.fn.now(),
        });
    },

    /** The agent, deleted or not, whoever asks: the service decides with its acl. */
    async findAgent(orgId: string, agentId: string): Promise<ChatAgent | undefined> {
      return db<ChatAgent>('agents')
        .where({ orgId, id: agentId })
        .first(
          'id',
          'orgId',
          'acl',
          'agentName',
          'agentPrompt',
          'chatModel',
          'temperature',
          'maxTokens',
          'anchorWords',
          'enabledTools',
          'deletedAt',
        );
    },
  };
}

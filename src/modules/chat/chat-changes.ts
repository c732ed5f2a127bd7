import type { Knex } from 'knex';
import type { ExpectedVersions } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, requireVersion } from '#src/errors.ts';
import type { Chat, ChatSummary } from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';

/** Renames and deletes chats: the one who started a chat may. */
export function createChatChanges({ db }: { db: Knex }) {
  async function lockOwn(trx: Knex, actor: Actor, chatId: string): Promise<Chat> {
    const chat = await createChatRepository(trx).lock(actor.orgId, chatId);
    if (chat === undefined || !can(actor, 'chat:read', chat)) throw appError('chat_not_found');
    if (!can(actor, 'chat:write', chat)) {
      throw appError('forbidden', { detail: 'Only the one who started a chat can change it.' });
    }
    return chat;
  }

  return {
    /** The name stays: what the model proposes later does not take its place. Throws `precondition_failed`. */
    async rename(actor: Actor, chatId: string, title: string, expected: ExpectedVersions): Promise<ChatSummary> {
      return db.transaction(async (trx) => {
        requireVersion(expected, await lockOwn(trx, actor, chatId));
        const chats = createChatRepository(trx);
        await chats.rename(chatId, title);
        const renamed = await chats.findReadable(actor, chatId);
        if (renamed === undefined) throw appError('chat_not_found');
        return renamed;
      });
    },

    /**
     * Everything of it goes at once: rounds, scores, kept answers, its job. An answer that is being written finds its
     * round gone and is given up.
     */
    async remove(actor: Actor, chatId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const chat = await lockOwn(trx, actor, chatId);
        await createChatRepository(trx).delete(chat);
      });
    },
  };
}

import type { Knex } from 'knex';
import { createChatRepository } from './chat.repository.ts';

export type DraftChatsService = ReturnType<typeof createDraftChatsService>;

export function createDraftChatsService() {
  return {
    /**
     * Deletes the chats with draft versions as their author would delete them. Call it in the transaction that deletes
     * the versions. A chat that is started meanwhile is deleted with its version by the foreign key.
     */
    async removeOfVersions(trx: Knex, orgId: string, versionIds: readonly string[]): Promise<void> {
      const chats = createChatRepository(trx);
      await chats.delete(orgId, await chats.lockOfVersions(orgId, versionIds));
    },
  };
}

import type { Knex } from 'knex';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import { defineRowShape, queryFirstRow, queryRows, textColumn } from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { DraftVersionModel } from '#src/modules/drafts/drafts.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import {
  type Chat,
  type ChatDraftVersion,
  ChatModel,
  type ChatSummary,
  chatAgentRowShape,
  chatDraftVersionRowShape,
  chatSummaryRowShape,
  type NewChat,
  type RagSettings,
  RoundEventModel,
  type StoredChatAgent,
} from './chat.model.ts';

const listedChat = defineRowShape({ ...chatSummaryRowShape.columns, sortKey: textColumn() });

export type ChatFilter = { agentId?: string | undefined; mine: boolean };

export function createChatRepository(db: Knex) {
  const chats = () => ChatModel.table(db);
  const readable = (actor: Actor, filter: ChatFilter = { mine: false }) =>
    whereReadableByActor(chats(), actor, 'chats').where({
      ...(filter.agentId !== undefined && { agentId: filter.agentId }),
      ...(filter.mine && { createdBy: actor.userId }),
    });

  const scoringPending = () =>
    db.raw(
      `(chats.draft_version_id is null and exists (
         select from rounds r where r.chat_id = chats.id and r.status = 'complete' and r.scored_at is null
       )) as scoring_pending`,
    );

  return {
    /**
     * Inserts a chat; returns false if its id already exists. Waits for a transaction that is inserting the same id.
     */
    async insert(chat: NewChat): Promise<boolean> {
      return (await chats().insert(chat).onConflict('id').ignore().returning('id')).length > 0;
    },

    /** Locks the chat's row. All changes of its rounds hold this lock, so that concurrent writers take turns. */
    async lock(orgId: string, chatId: string): Promise<Chat | undefined> {
      return chats().where({ orgId, id: chatId }).forUpdate().first();
    },

    async findReadable(actor: Actor, chatId: string): Promise<ChatSummary | undefined> {
      return queryFirstRow(
        db,
        chatSummaryRowShape,
        readable(actor).where({ id: chatId }).select('chats.*', scoringPending()),
      );
    },

    async findTitle(orgId: string, chatId: string): Promise<string | undefined> {
      return (await chats().where({ orgId, id: chatId }).first('title'))?.title;
    },

    async list(
      actor: Actor,
      filter: ChatFilter,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ChatSummary[]; last: ListPosition | null }> {
      const query = readable(actor, filter).select('chats.*', scoringPending());
      const listed = orderNewestFirst(query, { ...page, time: 'chats.updatedAt', id: 'chats.id' });
      return toListPage(await queryRows(db, listedChat, listed), page.limit);
    },

    async count(actor: Actor, filter: ChatFilter): Promise<number> {
      const row = await readable(actor, filter).count({ total: '*' }).first();
      return Number(row?.total ?? 0);
    },

    async recordMessage(chatId: string, change: { round: number } & RagSettings): Promise<void> {
      const { round, ...settings } = change;
      await chats()
        .where({ id: chatId })
        // The database trigger increments the chat's version only if `round_count` changes, but sending a failed
        // message again leaves it unchanged.
        .update({ ...settings, roundCount: round, updatedAt: db.fn.now(), version: db.raw('version + 1') });
    },

    async rename(chatId: string, title: string): Promise<void> {
      await chats().where({ id: chatId }).update({ title, titleSource: 'user', updatedAt: db.fn.now() });
    },

    /** Locks the chats with these draft versions, in the order of their ids. */
    async lockOfVersions(orgId: string, versionIds: readonly string[]): Promise<string[]> {
      const locked = await chats()
        .where({ orgId })
        .whereIn('draftVersionId', [...versionIds])
        .orderBy('id')
        .forUpdate()
        .select('id');
      return locked.map(({ id }) => id);
    },

    /** Deletes chats with their rounds, scoring jobs and stored responses of requests with an Idempotency-Key. */
    async delete(orgId: string, ids: readonly string[]): Promise<void> {
      if (ids.length === 0) return;
      const chatIds = [...ids];
      await db.raw(
        `delete from idempotency_keys k using rounds r, chats c
         where c.org_id = :orgId and c.id = any (:chatIds::uuid[]) and r.chat_id = c.id
           and k.user_id = c.created_by and k.key = r.idempotency_key and k.route in ('POST /chat', 'POST /chat/stream')`,
        { orgId, chatIds },
      );
      await JobModel.table(db).where({ orgId }).whereIn('chatId', chatIds).delete();
      await chats().where({ orgId }).whereIn('id', chatIds).delete();
      // Deletes the stored events after the rounds, because no process can store events of a round that is gone.
      await RoundEventModel.table(db).where({ orgId }).whereIn('chatId', chatIds).delete();
    },

    async recordAnswer(
      chatId: string,
      usage: { inputTokens: number; completionTokens: number; latencyMs: number },
    ): Promise<void> {
      await chats()
        .where({ id: chatId })
        .update({
          inputTokens: db.raw('input_tokens + ?', [usage.inputTokens]),
          completionTokens: db.raw('completion_tokens + ?', [usage.completionTokens]),
          latencyMs: usage.latencyMs,
          updatedAt: db.fn.now(),
        });
    },

    /** Finds an agent even if it is deleted or the user may not read it; the caller checks `deletedAt` and `acl`. */
    async findAgent(orgId: string, agentId: string): Promise<StoredChatAgent | undefined> {
      const agent = AgentModel.table(db).where({ orgId, id: agentId }).select(Object.keys(chatAgentRowShape.columns));
      return queryFirstRow(db, chatAgentRowShape, agent);
    },

    /** Finds a draft version even if the user may not read it; the caller checks `acl` and `createdBy`. */
    async findDraftVersion(orgId: string, versionId: string): Promise<ChatDraftVersion | undefined> {
      const version = DraftVersionModel.table(db)
        .join('drafts', { 'drafts.orgId': 'draftVersions.orgId', 'drafts.id': 'draftVersions.draftId' })
        .where({ 'draftVersions.orgId': orgId, 'draftVersions.id': versionId })
        .select(['id', 'orgId', 'acl', 'createdBy'].map((column) => `drafts.${column}`))
        .select(['agentName', 'agentPrompt', 'chatModel', 'temperature', 'maxTokens', 'anchorWords', 'enabledTools']);
      return queryFirstRow(db, chatDraftVersionRowShape, version);
    },

    /** Keeps a draft version from being deleted until the end of the transaction. Returns false if it is deleted. */
    async holdDraftVersion(orgId: string, versionId: string): Promise<boolean> {
      const held = await DraftVersionModel.table(db).where({ orgId, id: versionId }).forKeyShare().first('id');
      return held !== undefined;
    },
  };
}

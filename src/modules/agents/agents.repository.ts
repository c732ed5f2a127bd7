import type { Knex } from 'knex';
import { withoutUndefinedFields } from '#src/adapters/postgres/base-model.ts';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import { pickColumns, queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { AnchorFit } from '#src/domain/alignment/anchor-fit.ts';
import { ChatModel } from '#src/modules/chat/chat.model.ts';
import { DraftVersionModel } from '#src/modules/drafts/drafts.model.ts';
import {
  type Agent,
  AgentModel,
  type AgentUpdate,
  type AgentWithChats,
  agentWithChatsRowShape,
  HiddenAgentModel,
} from './agents.model.ts';

type AgentKey = Pick<Agent, 'orgId' | 'id'>;
type NewAgent = Omit<
  Agent,
  'createdAt' | 'updatedAt' | 'deletedAt' | 'version' | 'anchorWordCandidates' | 'anchorFit' | 'helpfulAnchorWords'
>;

export function createAgentsRepository(db: Knex) {
  const readable = (actor: Actor) => {
    const readableChats = whereReadableByActor(ChatModel.table(db), actor, 'chats')
      .whereRaw('chats.agent_id = agents.id')
      .select('id');
    return whereReadableByActor(AgentModel.query(db), actor, 'agents')
      .join('users', 'users.id', 'agents.createdBy')
      .whereNull('agents.deletedAt')
      .select('agents.*', 'users.displayName as createdByName', db.raw('exists (?) as has_chats', [readableChats]));
  };

  const hiddenBy = ({ userId }: Actor) => HiddenAgentModel.query(db).where('hiddenAgents.userId', userId);

  return {
    async listReadable(actor: Actor): Promise<AgentWithChats[]> {
      const shown = readable(actor)
        .whereNotExists(hiddenBy(actor).whereRaw('hidden_agents.agent_id = agents.id'))
        .orderBy([
          { column: 'agents.createdAt', order: 'desc' },
          { column: 'agents.id', order: 'desc' },
        ]);
      return queryRows(db, agentWithChatsRowShape, shown);
    },

    async findReadable(actor: Actor, id: string): Promise<AgentWithChats | undefined> {
      return queryFirstRow(db, agentWithChatsRowShape, readable(actor).where('agents.id', id));
    },

    async exists(orgId: string, id: string): Promise<boolean> {
      return (await AgentModel.table(db).where({ orgId, id }).first('id')) !== undefined;
    },

    async lockReadable(actor: Actor, id: string): Promise<Agent | undefined> {
      return whereReadableByActor(AgentModel.query(db), actor, 'agents')
        .whereNull('deletedAt')
        .findById(id)
        .forNoKeyUpdate();
    },

    async update({ orgId, id }: AgentKey, change: AgentUpdate): Promise<void> {
      await AgentModel.query(db)
        .where({ orgId, id })
        .patch({ ...withoutUndefinedFields(change), updatedAt: db.fn.now() });
    },

    /** Keeps the row of a deleted agent because its chats refer to it. */
    async markDeleted({ orgId, id }: AgentKey): Promise<void> {
      await AgentModel.query(db).where({ orgId, id }).patch({ deletedAt: db.fn.now(), updatedAt: db.fn.now() });
    },

    async listHidden(actor: Actor): Promise<string[]> {
      const hidden = whereReadableByActor(AgentModel.query(db), actor, 'agents')
        .whereExists(
          hiddenBy(actor).whereRaw('(hidden_agents.org_id, hidden_agents.agent_id) = (agents.org_id, agents.id)'),
        )
        .whereNull('agents.deletedAt')
        .orderBy('agents.id')
        .select('agents.id');
      return (await queryRows(db, pickColumns(AgentModel, 'id'), hidden)).map(({ id }) => id);
    },

    async setHidden({ orgId, userId }: Actor, agentId: string, isHidden: boolean): Promise<void> {
      const row = { orgId, userId, agentId };
      if (isHidden) await HiddenAgentModel.query(db).insert(row).onConflict().ignore();
      else await HiddenAgentModel.query(db).where(row).delete();
    },

    async countLive(orgId: string): Promise<number> {
      return AgentModel.query(db).where({ orgId }).whereNull('deletedAt').resultSize();
    },

    async listGoldenPrompts({ orgId, sourceVersionId }: Pick<Agent, 'orgId' | 'sourceVersionId'>): Promise<string[]> {
      const version = await DraftVersionModel.table(db).where({ orgId, id: sourceVersionId }).first('goldenCases');
      return (version?.goldenCases ?? []).map(({ prompt }) => prompt);
    },

    /** Does not count as a change of the agent: its `updatedAt` stays. */
    async setAnchorFit({ orgId, id }: AgentKey, { share, helpfulWords }: AnchorFit): Promise<void> {
      await AgentModel.query(db).where({ orgId, id }).patch({ anchorFit: share, helpfulAnchorWords: helpfulWords });
    },

    async insert(agent: NewAgent): Promise<void> {
      await AgentModel.query(db).insert(agent);
    },
  };
}

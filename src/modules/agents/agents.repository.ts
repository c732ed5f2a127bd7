import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { Agent, AgentChange, AgentView } from './agents.model.ts';

type AgentKey = Pick<Agent, 'orgId' | 'id'>;
type NewAgent = Omit<Agent, 'createdAt' | 'updatedAt' | 'deletedAt' | 'anchorWordCandidates'>;

export function createAgentsRepository(db: Db) {
  const readable = (actor: Actor) => {
    const readableChats = readableBy(db('chats'), actor, 'chats').whereRaw('chats.agent_id = agents.id').select('id');
    return readableBy(db('agents'), actor, 'agents')
      .join('users', 'users.id', 'agents.createdBy')
      .whereNull('agents.deletedAt')
      .select<AgentView[]>(
        'agents.*',
        'users.displayName as createdByName',
        db.raw('exists (?) as has_chats', [readableChats]),
      );
  };

  const hiddenBy = ({ userId }: Actor) => db('hiddenAgents').where('hiddenAgents.userId', userId);

  return {
    /** Without those that the caller has hidden. */
    async listReadable(actor: Actor): Promise<AgentView[]> {
      return readable(actor)
        .whereNotExists(hiddenBy(actor).whereRaw('hidden_agents.agent_id = agents.id'))
        .orderBy([
          { column: 'agents.createdAt', order: 'desc' },
          { column: 'agents.id', order: 'desc' },
        ]);
    },

    async findReadable(actor: Actor, id: string): Promise<AgentView | undefined> {
      const [agent] = await readable(actor).where('agents.id', id);
      return agent;
    },

    /** Changes of one agent wait for each other. */
    async lockReadable(actor: Actor, id: string): Promise<Agent | undefined> {
      const [agent] = await readableBy(db('agents'), actor, 'agents')
        .where({ 'agents.id': id, 'agents.deletedAt': null })
        .forNoKeyUpdate()
        .select<Agent[]>('agents.*');
      return agent;
    },

    /** What is undefined stays as it is. */
    async update({ orgId, id }: AgentKey, change: AgentChange): Promise<void> {
      await db('agents')
        .where({ orgId, id })
        .update({ ...change, updatedAt: db.fn.now() });
    },

    /** Its row stays for its chats. */
    async markDeleted({ orgId, id }: AgentKey): Promise<void> {
      await db('agents').where({ orgId, id }).update({ deletedAt: db.fn.now(), updatedAt: db.fn.now() });
    },

    async listHidden(actor: Actor): Promise<string[]> {
      return readableBy(hiddenBy(actor), actor, 'agents')
        .join('agents', { 'agents.orgId': 'hiddenAgents.orgId', 'agents.id': 'hiddenAgents.agentId' })
        .whereNull('agents.deletedAt')
        .orderBy('agents.id')
        .pluck('agents.id');
    },

    async setHidden({ orgId, userId }: Actor, agentId: string, isHidden: boolean): Promise<void> {
      const row = { orgId, userId, agentId };
      if (isHidden) await db('hiddenAgents').insert(row).onConflict().ignore();
      else await db('hiddenAgents').where(row).delete();
    },

    async countLive(orgId: string): Promise<number> {
      const [row] = await db('agents').where({ orgId, deletedAt: null }).count<{ count: number }[]>({ count: '*' });
      return row?.count ?? 0;
    },

    async insert(agent: NewAgent): Promise<void> {
      await db('agents').insert({ ...agent, anchorWords: JSON.stringify(agent.anchorWords) });
    },
  };
}

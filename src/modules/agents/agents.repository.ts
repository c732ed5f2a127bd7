import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { Agent, AgentView } from './agents.model.ts';

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

  return {
    async listReadable(actor: Actor): Promise<AgentView[]> {
      return readable(actor).orderBy([
        { column: 'agents.createdAt', order: 'desc' },
        { column: 'agents.id', order: 'desc' },
      ]);
    },

    async findReadable(actor: Actor, id: string): Promise<AgentView | undefined> {
      const [agent] = await readable(actor).where('agents.id', id);
      return agent;
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

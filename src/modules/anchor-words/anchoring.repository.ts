import type { Knex } from 'knex';
import type { SqlRow } from '#src/adapters/postgres/shapes.ts';
import type { ProposeAnchorWordsInput } from '#src/contracts/alignment.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';

export type AgentForAnchorWords = Pick<
  SqlRow<typeof AgentModel>,
  'agentName' | 'agentPrompt' | 'tags' | 'chatModel' | 'anchorWords' | 'anchorWordCandidates'
>;

export function createAnchorWordCandidatesRepository(db: Knex) {
  const live = ({ orgId, agentId }: ProposeAnchorWordsInput) =>
    AgentModel.table(db).where({ orgId, id: agentId, deletedAt: null });

  return {
    async find(of: ProposeAnchorWordsInput): Promise<AgentForAnchorWords | undefined> {
      return live(of).first('agentName', 'agentPrompt', 'tags', 'chatModel', 'anchorWords', 'anchorWordCandidates');
    },

    async store(of: ProposeAnchorWordsInput, candidates: readonly string[]): Promise<void> {
      await live(of)
        .whereRaw("anchor_word_candidates = '{}'")
        .update({ anchorWordCandidates: [...candidates] });
    },
  };
}

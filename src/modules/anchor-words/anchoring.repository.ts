import type { ProposeAnchorWordsInput } from '#src/contracts/anchoring.ts';
import type { AnchorWords } from '#src/domain/draft-fields.ts';
import type { Db } from '#src/ports/database.ts';

export type AnchoredAgent = {
  agentName: string;
  agentPrompt: string;
  tags: string[];
  chatModel: string;
  anchorWords: AnchorWords;
  anchorWordCandidates: string[];
};

export function createAnchoringRepository(db: Db) {
  const live = ({ orgId, agentId }: ProposeAnchorWordsInput) =>
    db('agents').where({ orgId, id: agentId, deletedAt: null });

  return {
    async find(of: ProposeAnchorWordsInput): Promise<AnchoredAgent | undefined> {
      return live(of).first(
        ...['agentName', 'agentPrompt', 'tags', 'chatModel', 'anchorWords', 'anchorWordCandidates'],
      );
    },

    /** The first ones stay. */
    async store(of: ProposeAnchorWordsInput, candidates: readonly string[]): Promise<void> {
      await live(of)
        .whereRaw("anchor_word_candidates = '{}'")
        .update({ anchorWordCandidates: [...candidates] });
    },
  };
}

import type { Db } from '#src/ports/database.ts';
import type { AlignmentSubject, FoldedRow, RoundScore, ScoredChat, UnscoredRound } from './alignment.model.ts';

type ChatKey = { orgId: string; chatId: string };

export function createAlignmentRepository(db: Db) {
  return {
    async findChat({ orgId, chatId }: ChatKey): Promise<ScoredChat | undefined> {
      return db('chats as c')
        .join('agents as a', (on) => on.on('a.orgId', 'c.orgId').andOn('a.id', 'c.agentId'))
        .where({ 'c.orgId': orgId, 'c.id': chatId })
        .first<ScoredChat | undefined>({
          orgId: 'c.orgId',
          chatId: 'c.id',
          agentId: 'a.id',
          chatModel: 'a.chatModel',
          title: 'c.title',
          titleSource: 'c.titleSource',
          anchorWords: 'a.anchorWords',
          userOffTopicStreakThreshold: 'a.userOffTopicStreakThreshold',
          userOnTopicStreakThreshold: 'a.userOnTopicStreakThreshold',
        });
    },

    async findOldestUnscored({ orgId, chatId }: ChatKey): Promise<UnscoredRound | undefined> {
      return db('rounds')
        .where({ orgId, chatId, status: 'complete', scoredAt: null })
        .orderBy('round')
        .first<UnscoredRound | undefined>('round', 'userContent', 'assistantReply');
    },

    /** Scored rounds before `round`, the last `limit` of them, in order. */
    async listFolded({ orgId, chatId }: ChatKey, before: number, limit: number): Promise<FoldedRow[]> {
      const rows: FoldedRow[] = await db('rounds')
        .where({ orgId, chatId })
        .where('round', '<', before)
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .limit(limit)
        .select('round', 'userContent', 'pruned', 'foldState');
      return rows.reverse();
    },

    async hasUnscored({ orgId, chatId }: ChatKey): Promise<boolean> {
      return (
        (await db('rounds').where({ orgId, chatId, status: 'complete', scoredAt: null }).first('round')) !== undefined
      );
    },

    async findNewestScored({ orgId, chatId }: ChatKey): Promise<number | undefined> {
      const row = await db('rounds')
        .where({ orgId, chatId })
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .first<{ round: number } | undefined>('round');
      return row?.round;
    },

    async findFirstMessage({ orgId, chatId }: ChatKey): Promise<string | undefined> {
      const row = await db('rounds')
        .where({ orgId, chatId, status: 'complete' })
        .orderBy('round')
        .first<{ userContent: string } | undefined>('userContent');
      return row?.userContent;
    },

    async lockChat({ orgId, chatId }: ChatKey): Promise<void> {
      await db('chats').where({ orgId, id: chatId }).forUpdate().first('id');
    },

    /**
     * False when the round has its scores already, or when an older one still waits for its own: then these were
     * folded onto the wrong state.
     */
    async storeScore({ orgId, chatId }: ChatKey, round: number, score: RoundScore): Promise<boolean> {
      const { foldState, events, ...columns } = score;
      const updated = await db('rounds')
        .where({ orgId, chatId, round, status: 'complete', scoredAt: null })
        .whereNotExists(
          db('rounds as older')
            .where({ 'older.chatId': chatId, 'older.status': 'complete', 'older.scoredAt': null })
            .where('older.round', '<', round),
        )
        .update({
          ...columns,
          foldState: JSON.stringify(foldState),
          events: JSON.stringify(events),
          scoredAt: db.fn.now(),
        });
      return updated === 1;
    },

    /** Takes rounds out of what the model sees. */
    async pruneRounds({ orgId, chatId }: ChatKey, rounds: readonly number[]): Promise<void> {
      await db('rounds').where({ orgId, chatId }).whereIn('round', rounds).update({ pruned: true });
    },

    async showNewest({ orgId, chatId }: ChatKey, round: number, score: RoundScore): Promise<void> {
      await db('chats').where({ orgId, id: chatId }).where('echoRound', '<', round).update({
        echoRound: round,
        echoState: score.echoState,
        ewma: score.ewma,
        alignmentScore: score.alignmentScore,
      });
    },

    /** Only over the title that came from the first message. */
    async nameChat({ orgId, chatId }: ChatKey, title: string): Promise<void> {
      await db('chats')
        .where({ orgId, id: chatId, titleSource: 'message' })
        .update({ title, titleSource: 'generated' });
    },

    /**
     * Chats with a round that waits for its scores although the job that should have made them is over, those that
     * wait longest first. One that an operator cancelled stays so until its next round.
     */
    async listOverdue(limit: number): Promise<AlignmentSubject[]> {
      const { rows } = await db.raw<{ rows: AlignmentSubject[] }>(
        `select c.id, c.org_id, c.agent_id, c.created_by, c.acl
         from rounds r
         join chats c on c.org_id = r.org_id and c.id = r.chat_id
         join jobs j on j.chat_id = c.id and j.kind = 'alignment'
         where r.status = 'complete' and r.scored_at is null and r.finished_at < now() - interval '5 seconds'
           and j.finished_at < now() - interval '30 seconds' and j.status <> 'cancelled'
         group by c.id
         order by min(r.finished_at)
         limit ?`,
        [limit],
      );
      return rows;
    },
  };
}

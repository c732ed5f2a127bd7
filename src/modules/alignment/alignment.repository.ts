import type { Knex } from 'knex';
import { pickColumns, queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';
import {
  type ChatToScore,
  chatToQueueRowShape,
  chatToScoreRowShape,
  earlierScoredRoundRowShape,
  previousRoundRowShape,
  type RoundScore,
  type StoredRoundScore,
  storedRoundTextsRowShape,
  storedScoreRowShape,
  unscoredRoundRowShape,
} from './alignment.model.ts';

type ChatKey = { orgId: string; chatId: string };

export function createAlignmentRepository(db: Knex) {
  return {
    findChat({ orgId, chatId }: ChatKey) {
      const query = db('chats as c')
        .join('agents as a', (on) => on.on('a.orgId', 'c.orgId').andOn('a.id', 'c.agentId'))
        .where({ 'c.orgId': orgId, 'c.id': chatId })
        .first({
          orgId: 'c.orgId',
          chatId: 'c.id',
          agentId: 'a.id',
          agentPrompt: 'a.agentPrompt',
          chatModel: 'a.chatModel',
          title: 'c.title',
          titleSource: 'c.titleSource',
          anchorWords: 'a.anchorWords',
          userOffTopicStreakThreshold: 'a.userOffTopicStreakThreshold',
          userOnTopicStreakThreshold: 'a.userOnTopicStreakThreshold',
          rescoringWantedAt: 'c.rescoringWantedAt',
          rescoredTo: 'c.rescoredTo',
        });
      return queryFirstRow(db, chatToScoreRowShape, query);
    },

    findOldestUnscored({ orgId, chatId }: ChatKey) {
      const query = RoundModel.table(db)
        .where({ orgId, chatId, status: 'complete', scoredAt: null })
        .orderBy('round')
        .first('round', 'userContent', 'assistantReply', 'events');
      return queryFirstRow(db, unscoredRoundRowShape, query);
    },

    findPreviousRound({ orgId, chatId }: ChatKey, round: number) {
      const query = RoundModel.table(db)
        .where({ orgId, chatId })
        .where('round', '<', round)
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .first('round', 'userContent', 'assistantReply', db.raw('refusal_kind is not null as is_refusal'));
      return queryFirstRow(db, previousRoundRowShape, query);
    },

    async listFolded({ orgId, chatId }: ChatKey, before: number, limit: number) {
      const query = RoundModel.table(db)
        .where({ orgId, chatId })
        .where('round', '<', before)
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .limit(limit)
        .select('round', 'pruned', { state: 'foldState' });
      return (await queryRows(db, earlierScoredRoundRowShape, query)).reverse();
    },

    async hasUnscored({ orgId, chatId }: ChatKey): Promise<boolean> {
      const waiting = { orgId, chatId, status: 'complete', scoredAt: null } as const;
      return (await RoundModel.table(db).where(waiting).first('round')) !== undefined;
    },

    async findNewestScored({ orgId, chatId }: ChatKey): Promise<number | undefined> {
      const row = await RoundModel.table(db)
        .where({ orgId, chatId })
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .first('round');
      return row?.round;
    },

    async findFirstMessage({ orgId, chatId }: ChatKey): Promise<string | undefined> {
      const row = await RoundModel.table(db)
        .where({ orgId, chatId, status: 'complete' })
        .orderBy('round')
        .first('userContent');
      return row?.userContent;
    },

    async lockChat({ orgId, chatId }: ChatKey): Promise<void> {
      await ChatModel.table(db).where({ orgId, id: chatId }).forUpdate().first('id');
    },

    /**
     * Stores the scores of a round. Returns false, and stores nothing, if the round already has scores, or if an older
     * round has none: scores depend on those of older rounds.
     */
    async storeScore({ orgId, chatId }: ChatKey, round: number, score: RoundScore): Promise<boolean> {
      const updated = await RoundModel.query(db)
        .where({ orgId, chatId, round, status: 'complete', scoredAt: null })
        .whereNotExists(
          RoundModel.query(db)
            .alias('older')
            .where({ 'older.chatId': chatId, 'older.status': 'complete', 'older.scoredAt': null })
            .where('older.round', '<', round),
        )
        .patch({ ...score, scoredAt: db.fn.now() });
      return updated === 1;
    },

    async pruneRounds({ orgId, chatId }: ChatKey, rounds: readonly number[]): Promise<void> {
      await RoundModel.query(db)
        .where({ orgId, chatId })
        .whereIn('round', [...rounds])
        .patch({ pruned: true });
    },

    listOutdated({ orgId, chatId, rescoredTo }: ChatToScore, version: string, limit: number) {
      const query = RoundModel.table(db)
        .where({ orgId, chatId })
        .where('round', '>', rescoredTo)
        .whereNotNull('scoredAt')
        .whereNot({ scorerVersion: version })
        .orderBy('round')
        .limit(limit)
        .select('round', 'userContent', 'assistantReply');
      return queryRows(db, storedRoundTextsRowShape, query);
    },

    /**
     * Lists scored rounds in order. A refusal that older scorer versions stored without a score gets the score 1, the
     * best.
     */
    listScores({ orgId, chatId }: ChatKey) {
      const query = RoundModel.table(db)
        .where({ orgId, chatId })
        .whereNotNull('scoredAt')
        .orderBy('round')
        .select(
          ...['round', 'scoredAt', 'pruned', 'scorerVersion', 'userScore', 'agentScore', 'neutral', 'refusalKind'],
          ...['alignmentScore', 'ewma', 'echoState', 'foldState', 'events'],
          db.raw(`coalesce(score_source, 'embedding') as score_source`),
          db.raw(`case when refusal_reading is not null then refusal_reading
                       when refusal_kind is not null and score_source is null then jsonb_build_object(
                         'kind', case refusal_kind when 'scope' then 'policy' else refusal_kind end, 'score', 1)
                  end as refusal_reading`),
        );
      return queryRows(db, storedScoreRowShape, query);
    },

    async replaceScore({ orgId, chatId }: ChatKey, { round, scoredAt, ...score }: StoredRoundScore): Promise<void> {
      await RoundModel.query(db).where({ orgId, chatId, round }).patch(score);
    },

    async setChatState({ orgId, chatId }: ChatKey, round: number, score: ChatState): Promise<void> {
      await ChatModel.query(db).where({ orgId, id: chatId }).patch(chatStateOf(round, score));
    },

    /**
     * Reads a batch of up to 1,000 chats with ids above `after`, and marks those for rescoring that have rounds of
     * another scorer version. Returns the last id of the batch; undefined if the batch is empty.
     */
    async markForRescoring(orgId: string | null, version: string, after: string): Promise<string | undefined> {
      const last = await queryFirstRow(
        db,
        pickColumns(ChatModel, 'id'),
        `with batch as (
           select id from chats where id > :after and (:orgId::uuid is null or org_id = :orgId) order by id limit 1000
         ), marked as (
           update chats c set rescoring_wanted_at = coalesce(rescoring_wanted_at, now()), rescored_to = 0
           from batch
           where c.id = batch.id and (rescoring_wanted_at is null or rescored_to > 0) and exists (
             select from rounds r where r.chat_id = c.id and r.scored_at is not null and r.scorer_version <> :version)
         )
         select id from batch order by id desc limit 1`,
        { orgId, version, after },
      );
      return last?.id;
    },

    async setRescoredTo({ orgId, chatId }: ChatKey, rescoredTo: number): Promise<void> {
      await ChatModel.query(db).where({ orgId, id: chatId }).patch({ rescoredTo });
    },

    async endRescoring({ orgId, chatId }: ChatKey): Promise<void> {
      await ChatModel.query(db).where({ orgId, id: chatId }).patch({ rescoringWantedAt: null, rescoredTo: 0 });
    },

    async countRescoring(orgId: string | null): Promise<number> {
      return ChatModel.query(db)
        .whereNotNull('rescoringWantedAt')
        .where(orgId === null ? {} : { orgId })
        .resultSize();
    },

    /** Adds a `scoring_failed` event to the oldest unscored round, at most once per reason. */
    async noteFailure({ orgId, chatId }: ChatKey, reason: string): Promise<void> {
      await db.raw(
        `update rounds set events = events || jsonb_build_array(jsonb_build_object(
           'type', 'scoring_failed', 'data', jsonb_build_object('reason', ?::text), 'round', round,
           'at', to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
         where chat_id = ? and org_id = ? and round = (
           select min(r.round) from rounds r where r.chat_id = ? and r.status = 'complete' and r.scored_at is null)
           and not events @> jsonb_build_array(jsonb_build_object(
             'type', 'scoring_failed', 'data', jsonb_build_object('reason', ?::text)))`,
        [reason, chatId, orgId, chatId, reason],
      );
    },

    async setChatStateIfNewer({ orgId, chatId }: ChatKey, round: number, score: RoundScore): Promise<void> {
      await ChatModel.query(db)
        .where({ orgId, id: chatId })
        .where('echoRound', '<', round)
        .patch(chatStateOf(round, score));
    },

    async nameChat({ orgId, chatId }: ChatKey, title: string): Promise<void> {
      await ChatModel.query(db)
        .where({ orgId, id: chatId, titleSource: 'message' })
        .patch({ title, titleSource: 'generated' });
    },

    /**
     * Lists chats that wait for rescoring and have no open job: as many as `limit` minus the number of open rescoring
     * jobs. Chats whose last job ended longest ago come first, so that a chat whose scoring keeps failing does not
     * delay the others.
     */
    listRescoringDue(limit: number) {
      return queryRows(
        db,
        chatToQueueRowShape,
        `select c.id, c.org_id, c.agent_id, c.created_by, c.acl
         from chats c
         left join jobs j on j.chat_id = c.id and j.kind = 'alignment'
         where c.rescoring_wanted_at is not null
           and (j.id is null or j.status <> 'cancelled' and j.finished_at < now() - interval '30 seconds')
         order by coalesce(j.finished_at, '-infinity'), c.rescoring_wanted_at, c.id
         limit greatest(0, ? - (select count(*)::int from chats o
                                join jobs w on w.chat_id = o.id and w.kind = 'alignment'
                                where o.rescoring_wanted_at is not null and w.finished_at is null))`,
        [limit],
      );
    },

    /**
     * Lists chats with unscored rounds and no open job, longest waiting first. Omits chats whose job was cancelled.
     */
    listOverdue(limit: number) {
      return queryRows(
        db,
        chatToQueueRowShape,
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
    },
  };
}

type ChatState = Pick<RoundScore, 'echoState' | 'ewma' | 'alignmentScore'>;

const chatStateOf = (round: number, { echoState, ewma, alignmentScore }: ChatState) => ({
  echoRound: round,
  echoState,
  ewma,
  alignmentScore,
});

import type { Knex } from 'knex';
import {
  booleanColumn,
  defineRowShape,
  pickColumns,
  queryRows,
  type SqlRow,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { type CompletedAnswer, type Round, type RoundKey, RoundModel, type RoundStreamKey } from './chat.model.ts';

export type RoundsRepository = ReturnType<typeof createRoundsRepository>;

type ScoredRound = Pick<
  Round,
  'round' | 'echoState' | 'ewma' | 'alignmentScore' | 'foldState' | 'answerEvents' | 'events'
>;

type Lease = { owner: string; seconds: number };

const activeStream = defineRowShape({
  ...pickColumns(RoundModel, 'lastSeq').columns,
  streamId: uuidColumn(),
  isOpen: booleanColumn(),
});
type ActiveStream = Omit<SqlRow<typeof activeStream>, 'streamId'>;

/** An open round has a lease: only its owner may complete it; after expiry any process may end it as interrupted. */
export function createRoundsRepository(db: Knex) {
  const rounds = () => RoundModel.table(db);
  const leaseEnd = (seconds: number) => db.raw(`now() + make_interval(secs => ?)`, [seconds]);
  const held = (key: RoundKey, owner: string) => rounds().where({ ...key, status: 'open', leaseOwner: owner });

  return {
    async find(key: RoundKey): Promise<Round | undefined> {
      return rounds().where(key).first();
    },

    async findNewest(chatId: string): Promise<Round | undefined> {
      return rounds().where({ chatId }).orderBy('round', 'desc').first();
    },

    async findByIdempotencyKey(chatId: string, idempotencyKey: string): Promise<Round | undefined> {
      return rounds().where({ chatId, idempotencyKey }).first();
    },

    async list(chatId: string): Promise<Round[]> {
      return rounds().where({ chatId }).orderBy('round');
    },

    async listForPrompt(
      chatId: string,
      before: number,
      limit: number,
    ): Promise<Pick<Round, 'userContent' | 'assistantReply' | 'citations'>[]> {
      return rounds()
        .where({ chatId, status: 'complete', pruned: false })
        .where('round', '<', before)
        .orderBy('round', 'desc')
        .limit(limit)
        .select('userContent', 'assistantReply', 'citations');
    },

    async open(
      round: RoundKey & { orgId: string; userContent: string; model: string; idempotencyKey: string | null },
      lease: Lease,
    ): Promise<void> {
      await rounds().insert({
        ...round,
        status: 'open',
        streamId: lease.owner,
        leaseOwner: lease.owner,
        leaseExpiresAt: leaseEnd(lease.seconds),
      });
    },

    async reopen(key: RoundKey, change: { model: string; idempotencyKey: string | null }, lease: Lease): Promise<void> {
      await rounds()
        .where({ ...key, status: 'error' })
        .update({
          ...change,
          status: 'open',
          errorCode: null,
          startedAt: db.fn.now(),
          finishedAt: null,
          streamId: lease.owner,
          attempt: db.raw('attempt + 1'),
          lastSeq: null,
          leaseOwner: lease.owner,
          leaseExpiresAt: leaseEnd(lease.seconds),
        });
    },

    async renewLease(key: RoundKey, lease: Lease): Promise<boolean> {
      return (await held(key, lease.owner).update({ leaseExpiresAt: leaseEnd(lease.seconds) })) === 1;
    },

    async complete(key: RoundKey, owner: string, answer: CompletedAnswer, lastSeq: number): Promise<boolean> {
      const updated = await RoundModel.query(db)
        .where({ ...key, status: 'open', leaseOwner: owner })
        .patch({
          ...answer,
          lastSeq,
          status: 'complete',
          finishedAt: db.fn.now(),
          leaseOwner: null,
          leaseExpiresAt: null,
        });
      return updated === 1;
    },

    async fail(key: RoundKey, owner: string, errorCode: string, lastSeq: number): Promise<void> {
      await held(key, owner).update({ ...failed(errorCode), lastSeq });
    },

    /** Ends open rounds whose lease has expired because their process died. Returns their number. */
    async failExpired(errorCode: string, chatId?: string): Promise<number> {
      return rounds()
        .where({ status: 'open', ...(chatId !== undefined && { chatId }) })
        .where('leaseExpiresAt', '<', db.fn.now())
        .update(failed(errorCode));
    },

    /**
     * Lists the event streams, by stream id, that may still get events: their round is open or ended within the last
     * ten seconds. `lastSeq` is null if the sequence number of the last event is unknown.
     */
    async listActive(of: readonly RoundStreamKey[]): Promise<Map<string, ActiveStream>> {
      const found = await queryRows(
        db,
        activeStream,
        `select r.stream_id, r.status = 'open' as is_open, r.last_seq
         from unnest(?::uuid[], ?::integer[], ?::uuid[]) as s (chat_id, round, stream_id)
         join rounds r using (chat_id, round, stream_id)
         where r.status = 'open' or r.finished_at > now() - interval '10 seconds'`,
        [of.map(({ chatId }) => chatId), of.map(({ round }) => round), of.map(({ streamId }) => streamId)],
      );
      return new Map(found.map(({ streamId, ...stream }) => [streamId, stream]));
    },

    async recordFollowers(of: readonly RoundStreamKey[]): Promise<void> {
      await db.raw(
        `update rounds r set followed_at = now()
         from unnest(?::uuid[], ?::integer[], ?::uuid[]) as s (chat_id, round, stream_id)
         where (r.chat_id, r.round, r.stream_id) = (s.chat_id, s.round, s.stream_id) and r.status = 'open'`,
        [of.map(({ chatId }) => chatId), of.map(({ round }) => round), of.map(({ streamId }) => streamId)],
      );
    },

    async isFollowed({ chatId, round, streamId }: RoundStreamKey, seconds: number): Promise<boolean> {
      const followed = await rounds()
        .where({ chatId, round, streamId })
        .where('followedAt', '>', db.raw('now() - make_interval(secs => ?)', [seconds]))
        .first('round');
      return followed !== undefined;
    },

    async findNewestScored(chatId: string): Promise<ScoredRound | undefined> {
      return rounds()
        .where({ chatId })
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .first('round', 'echoState', 'ewma', 'alignmentScore', 'foldState', 'answerEvents', 'events');
    },
  };

  function failed(errorCode: string) {
    return { status: 'error' as const, errorCode, finishedAt: db.fn.now(), leaseOwner: null, leaseExpiresAt: null };
  }
}

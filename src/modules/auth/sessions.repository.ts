import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import {
  booleanColumn,
  defineRowShape,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { RefreshTokenFamilyModel, RefreshTokenModel } from './auth.model.ts';

/**
 * `isOpen` is true for a session whose refresh token works; `isCutOff` is true for a session whose access tokens no
 * longer work.
 */
const session = defineRowShape({
  sessionId: uuidColumn(),
  userId: uuidColumn(),
  orgId: uuidColumn().nullable(),
  isOpen: booleanColumn(),
  isCutOff: booleanColumn(),
  isUserDisabled: booleanColumn(),
});

type SessionRow = SqlRow<typeof session>;

/**
 * A session is `revoked` if its refresh tokens no longer work, and `cut_off` if its access tokens do not work either.
 * `usedAt` is the time of the last sign-in or refresh.
 */
const sessionOfUser = defineRowShape({
  sessionId: uuidColumn(),
  state: textColumn<'open' | 'expired' | 'revoked' | 'cut_off'>(),
  createdAt: timestampColumn(),
  usedAt: timestampColumn(),
  expiresAt: timestampColumn(),
});

export type UserSession = SqlRow<typeof sessionOfUser>;

const openSession = defineRowShape({
  id: uuidColumn(),
  userAgent: textColumn().nullable(),
  createdAt: timestampColumn(),
  usedAt: timestampColumn(),
  expiresAt: timestampColumn(),
  sortKey: textColumn(),
});

export type OpenSession = SqlRow<typeof openSession>;

/** A refresh token that cannot be used: either it was used before, or it has expired (`wasUsed` is false). */
const spentToken = defineRowShape({ wasUsed: booleanColumn(), wasJustRotated: booleanColumn() });

type SpentToken = SqlRow<typeof spentToken>;

/** Joins the newest refresh token of a session, which gives the time of the session's last use and its expiry. */
const lastToken = `lateral (select created_at as used_at, expires_at from refresh_tokens
  where family_id = f.id order by generation desc limit 1) as t`;

/** Hashes a network together with the user id, so that the stored hashes do not reveal which users share a network. */
export function hashClientNetwork(userId: string, network: string): Buffer {
  return createHash('sha256').update(`${userId} ${network}`).digest();
}

/** A session is stored as a family of refresh tokens. Only hashes of tokens are stored. */
export function createSessionsRepository(db: Knex) {
  const days = (count: number) => db.raw('now() + make_interval(days => ?)', [count]);
  const revoked = { revokedAt: db.raw('coalesce(revoked_at, now())') };
  const cutOff = { cutOffAt: db.raw('coalesce(cut_off_at, now())') };

  return {
    async insertFamily(family: {
      id: string;
      userId: string;
      userAgent: string | null;
      networkHash: Buffer;
      lifetimeDays: number;
    }): Promise<void> {
      const { lifetimeDays, ...row } = family;
      await RefreshTokenFamilyModel.query(db).insert({ ...row, expiresAt: days(lifetimeDays) });
    },

    async isKnownNetwork(userId: string, networkHash: Buffer): Promise<boolean> {
      return (await RefreshTokenFamilyModel.table(db).where({ userId, networkHash }).first('id')) !== undefined;
    },

    /** Inserts a refresh token, which expires at the latest with its session. */
    async insertToken(token: { hash: Buffer; familyId: string; generation: number; idleDays: number }): Promise<void> {
      await db.raw(
        `insert into refresh_tokens (token_hash, family_id, generation, expires_at)
         select :hash, id, :generation, least(expires_at, now() + make_interval(days => :idleDays))
         from refresh_token_families where id = :familyId`,
        token,
      );
    },

    /** Locks the session of a refresh token, so that a rotation and a revocation never overlap. */
    lockByToken(hash: Buffer): Promise<SessionRow | undefined> {
      const locked = RefreshTokenFamilyModel.query(db)
        .alias('f')
        .join('refresh_tokens as t', 't.family_id', 'f.id')
        .join('users as u', 'u.id', 'f.user_id')
        .leftJoin('memberships as m', 'm.user_id', 'f.user_id')
        .where('t.token_hash', hash)
        .select(
          db.raw(
            `f.id as session_id, f.user_id, m.org_id, f.cut_off_at is not null as is_cut_off,
             (u.disabled_at is not null and u.deleted_at is null) as is_user_disabled,
             (f.revoked_at is null and f.expires_at > now()) as is_open`,
          ),
        );
      return queryFirstRow(db, session, locked.toKnexQuery().forUpdate('f'));
    },

    /**
     * Marks a refresh token as used. Returns its position in the session's series of refresh tokens; undefined if the
     * token was used before or has expired.
     */
    async useToken(hash: Buffer): Promise<number | undefined> {
      const [used] = await RefreshTokenModel.table(db)
        .where('tokenHash', hash)
        .whereNull('usedAt')
        .whereRaw('expires_at > now()')
        .update({ usedAt: db.fn.now() })
        .returning('generation');
      return used?.generation;
    },

    findSpent(hash: Buffer, graceSeconds: number): Promise<SpentToken | undefined> {
      const spent = RefreshTokenModel.query(db)
        .alias('t')
        .where('t.token_hash', hash)
        .select(
          db.raw(
            `t.used_at is not null as was_used,
             coalesce(t.used_at > now() - make_interval(secs => ?), false) and t.generation + 1 =
               (select max(generation) from refresh_tokens where family_id = t.family_id) as was_just_rotated`,
            [graceSeconds],
          ),
        );
      return queryFirstRow(db, spentToken, spent);
    },

    async listOpen(
      { userId, current }: { userId: string; current: string },
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: OpenSession[]; last: ListPosition | null }> {
      const open = RefreshTokenFamilyModel.query(db)
        .alias('f')
        .joinRaw(`join ${lastToken} on true`)
        .where('f.userId', userId)
        .whereNull('f.cutOffAt')
        .whereRaw('(f.id = ? or (f.revoked_at is null and t.expires_at > now()))', [current])
        .select('f.id', 'f.userAgent', 'f.createdAt', 't.used_at', 't.expires_at');
      const listed = orderNewestFirst(open.toKnexQuery(), { time: 'f.created_at', id: 'f.id', ...page });
      return toListPage(await queryRows(db, openSession, listed), page.limit);
    },

    async listOf(userId: string): Promise<UserSession[]> {
      const sessions = RefreshTokenFamilyModel.query(db)
        .alias('f')
        .joinRaw(`join ${lastToken} on true`)
        .where('f.userId', userId)
        .orderBy('f.createdAt', 'desc')
        .select(
          db.raw(
            `f.id as session_id, f.created_at, t.used_at, t.expires_at,
             case when f.cut_off_at is not null then 'cut_off' when f.revoked_at is not null then 'revoked'
               when t.expires_at <= now() then 'expired' else 'open' end as state`,
          ),
        );
      return queryRows(db, sessionOfUser, sessions);
    },

    /**
     * Ends sessions of a user: all, only `sessionId`, or all but `except`. Returns the ids of sessions whose access
     * tokens worked until now.
     */
    async endOf(userId: string, which: { sessionId: string | null; except?: string }): Promise<string[]> {
      const { sessionId, except } = which;
      const theirs = RefreshTokenFamilyModel.table(db).where({ userId, ...(sessionId !== null && { id: sessionId }) });
      if (except !== undefined) theirs.whereNot('id', except);
      const ended = await theirs
        .whereNull('cutOffAt')
        .update({ ...revoked, ...cutOff })
        .returning('id');
      return ended.map(({ id }) => id);
    },

    async deleteExpired(): Promise<number> {
      return RefreshTokenFamilyModel.query(db).where('expiresAt', '<', days(-1)).delete();
    },

    async end(sessionId: string): Promise<void> {
      await RefreshTokenFamilyModel.query(db)
        .where('id', sessionId)
        .patch({ ...revoked, ...cutOff });
    },

    /**
     * Ends all sessions of the users. The session `spared` keeps its access token and loses only its refresh tokens.
     */
    async endAll(userIds: readonly string[], spared: string | null): Promise<void> {
      const theirs = () => RefreshTokenFamilyModel.query(db).whereIn('userId', [...userIds]);
      await theirs().whereNull('revokedAt').patch(revoked);
      const others = spared === null ? theirs() : theirs().whereNot('id', spared);
      await others.whereNull('cutOffAt').patch(cutOff);
    },
  };
}

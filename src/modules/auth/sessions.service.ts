import { createHash, randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { SignInDevice } from './auth.model.ts';
import {
  createSessionsRepository,
  hashClientNetwork,
  type OpenSession,
  type UserSession,
} from './sessions.repository.ts';

const tokenBytes = 32;
const absoluteDays = 30;
const idleDays = 7;
/**
 * Time in which a used refresh token is accepted once more: a client that lost the response sends it again at once.
 */
const reuseGraceSeconds = 10;
const maxUserAgentLength = 300;

export type Session = { sessionId: string; userId: string; refreshToken: string };
export type SessionsService = ReturnType<typeof createSessionsService>;

/** Sessions and their refresh tokens, which rotate on every use (RFC 9700 §4.14). */
export function createSessionsService(deps: { db: Knex; audit: AuditService }) {
  const { db, audit } = deps;

  async function issue(trx: Knex, session: Omit<Session, 'refreshToken'>, generation: number): Promise<Session> {
    const refreshToken = randomBytes(tokenBytes).toString('base64url');
    const token = { hash: hashOf(refreshToken), familyId: session.sessionId, generation, idleDays };
    await createSessionsRepository(trx).insertToken(token);
    return { ...session, refreshToken };
  }

  async function endOwnSessions(
    { userId, orgId, requestId }: RequestActor,
    which: { sessionId: string | null; except?: string },
  ): Promise<string[]> {
    return db.transaction(async (trx) => {
      const ended = await createSessionsRepository(trx).endOf(userId, which);
      const entry = { orgId, actorId: userId, action: 'session.ended', requestId };
      for (const target of ended) await audit.record(trx, { ...entry, target });
      return ended;
    });
  }

  return {
    async open(trx: Knex, userId: string, { network, userAgent }: SignInDevice): Promise<Session> {
      const sessionId = uuidv7();
      const client = {
        userAgent: userAgent?.slice(0, maxUserAgentLength) ?? null,
        networkHash: hashClientNetwork(userId, network),
      };
      await createSessionsRepository(trx).insertFamily({
        id: sessionId,
        userId,
        ...client,
        lifetimeDays: absoluteDays,
      });
      return issue(trx, { sessionId, userId }, 1);
    },

    /**
     * Exchanges a refresh token for the next one of its session, and runs `accept` in the same transaction. A reused
     * token revokes the session, unless it is the token that was used last and is sent again within ten seconds.
     */
    async rotate<Result>(
      refreshToken: string,
      requestId: string,
      accept: (trx: Knex, session: Session) => Promise<Result>,
    ): Promise<Result> {
      const hash = hashOf(refreshToken);
      const outcome = await db.transaction(async (trx) => {
        const sessions = createSessionsRepository(trx);
        const session = await sessions.lockByToken(hash);
        // Disabling a user has ended their sessions, so the refresh fails anyway. The client gets the more precise
        // error `account_disabled`, because its token proves that it acts for the user.
        if (session?.isUserDisabled) return 'disabled';
        if (session === undefined || !session.isOpen) return 'invalid';
        const { sessionId, userId, orgId } = session;
        const generation = await sessions.useToken(hash);
        if (generation !== undefined) {
          return { accepted: await accept(trx, await issue(trx, { sessionId, userId }, generation + 1)) };
        }
        const spent = await sessions.findSpent(hash, reuseGraceSeconds);
        if (spent === undefined || !spent.wasUsed) return 'invalid';
        if (spent.wasJustRotated) return 'reused';
        await sessions.end(sessionId);
        const entry = { orgId, actorId: userId, target: sessionId, requestId };
        await audit.record(trx, { ...entry, action: 'session.reuse_detected' });
        return 'reused';
      });
      // Throws errors only after the transaction has committed, because throwing inside of it would roll back the
      // revocation of the session.
      if (outcome === 'disabled') throw appError('account_disabled');
      if (outcome === 'invalid')
        throw appError('refresh_invalid', {
          detail: 'The refresh token is unknown, expired or revoked. Sign in again.',
        });
      if (outcome === 'reused')
        throw appError('refresh_reused', {
          detail: 'The refresh token was used before. Use the newest one of the session, or sign in again.',
        });
      return outcome.accepted;
    },

    /**
     * Ends all sessions of users: no refresh token works any more, and within seconds no access token. The session
     * `except` loses its refresh tokens too, but its access token works until it expires. Call it in the transaction
     * that changes the user's row, after that change: a concurrent sign-in then waits for the row and opens no session.
     */
    async endAll(
      trx: Knex,
      userIds: readonly string[],
      { except = null }: { except?: string | null } = {},
    ): Promise<void> {
      await createSessionsRepository(trx).endAll(userIds, except);
    },

    list(userId: string): Promise<UserSession[]> {
      return createSessionsRepository(db).listOf(userId);
    },

    end(trx: Knex, userId: string, { sessionId }: { sessionId: string | null }): Promise<string[]> {
      return createSessionsRepository(trx).endOf(userId, { sessionId });
    },

    listOwn(
      { userId }: RequestActor,
      current: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: OpenSession[]; last: ListPosition | null }> {
      return createSessionsRepository(db).listOpen({ userId, current }, page);
    },

    async endOwn(actor: RequestActor, sessionId: string): Promise<void> {
      if ((await endOwnSessions(actor, { sessionId })).length === 0) throw appError('session_not_found');
    },

    async endOthers(actor: RequestActor, current: string): Promise<void> {
      await endOwnSessions(actor, { sessionId: null, except: current });
    },

    async deleteExpired(): Promise<number> {
      return createSessionsRepository(db).deleteExpired();
    },

    async close(refreshToken: string, requestId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const sessions = createSessionsRepository(trx);
        const session = await sessions.lockByToken(hashOf(refreshToken));
        if (session === undefined || session.isCutOff) return;
        await sessions.end(session.sessionId);
        const { userId, sessionId, orgId } = session;
        const entry = { orgId, actorId: userId, target: sessionId, requestId };
        await audit.record(trx, { ...entry, action: 'session.closed' });
      });
    },
  };
}

function hashOf(refreshToken: string): Buffer {
  return createHash('sha256').update(refreshToken).digest();
}

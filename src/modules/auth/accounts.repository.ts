import type { Knex } from 'knex';
import {
  booleanColumn,
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textArrayColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ApiKeyScope } from '#src/domain/access/api-keys.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { ApiKeyModel } from '#src/modules/api-keys/api-keys.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { VerifiedIdentity } from '#src/ports/identity.ts';
import {
  type Account,
  accountRowShape,
  MembershipModel,
  type NewMembership,
  type NewUser,
  RefreshTokenFamilyModel,
  UserIdentityModel,
  UserModel,
} from './auth.model.ts';

const accountColumns = `
  u.id as user_id, u.email, u.password_hash, u.first_name, u.last_name, u.display_name,
  u.disabled_at is not null as is_disabled,
  o.id as org_id, o.name as org_name, o.tier, m.is_org_admin`;

const teamIds = (condition: string) => `array(
  select tm.team_id from team_memberships tm join teams t on t.id = tm.team_id
  where tm.user_id = u.id and t.disabled_at is null and ${condition})`;

const actorRow = defineRowShape({
  userId: uuidColumn(),
  orgId: uuidColumn(),
  isOrgAdmin: booleanColumn(),
  teamIds: uuidArrayColumn(),
  teamAdminOf: uuidArrayColumn(),
  openTeamIds: uuidArrayColumn(),
  contributesToOrganization: booleanColumn(),
  teamAdminsContribute: booleanColumn(),
});

function toActor({ teamAdminsContribute, ...actor }: SqlRow<typeof actorRow>): Actor {
  const contributesToOrganization =
    actor.isOrgAdmin || actor.contributesToOrganization || (teamAdminsContribute && actor.teamAdminOf.length > 0);
  return { ...actor, contributesToOrganization };
}

const actorColumns = `
  u.id as user_id, o.id as org_id, m.is_org_admin,
  ${teamIds('true')} as team_ids, ${teamIds('tm.is_team_admin')} as team_admin_of,
  case when m.is_org_admin then array(select t.id from teams t where t.org_id = o.id)
    else ${teamIds('true')} end as open_team_ids,
  m.contributes_to_organization, o.team_admins_contribute`;

const keyCaller = defineRowShape({
  ...actorRow.columns,
  secretId: uuidColumn(),
  scopes: textArrayColumn<ApiKeyScope>(),
  isUseOutdated: booleanColumn(),
});

type ApiKeyCaller = Omit<SqlRow<typeof keyCaller>, keyof SqlRow<typeof actorRow>> & { actor: Actor };

/** `last_used_at` of a key is written at most once in this time. */
const keyUseSeconds = 60;

const isKeyLive = '(k.expires_at is null or k.expires_at > now())';

/** Excludes users who are deleted or whose organization is deleted. */
export function createAccountsRepository(db: Knex) {
  const existing = () =>
    UserModel.query(db)
      .alias('u')
      .join('memberships as m', 'm.user_id', 'u.id')
      .join('organizations as o', 'o.id', 'm.org_id')
      .whereNull('u.deleted_at')
      .whereNull('o.deleted_at');
  const active = (userId: string) => existing().where('u.id', userId).whereNull('u.disabledAt');

  async function findOneActor(query: ReturnType<typeof existing>): Promise<Actor | undefined> {
    const row = await queryFirstRow(db, actorRow, query.select(db.raw(actorColumns)));
    return row && toActor(row);
  }

  return {
    async isEmailTaken(email: string): Promise<boolean> {
      const row = await UserModel.table(db).where({ email }).whereNull('deletedAt').first('id');
      return row !== undefined;
    },

    findByEmail(email: string): Promise<Account | undefined> {
      return queryFirstRow(db, accountRowShape, existing().where('u.email', email).select(db.raw(accountColumns)));
    },

    findById(userId: string): Promise<Account | undefined> {
      return queryFirstRow(db, accountRowShape, existing().where('u.id', userId).select(db.raw(accountColumns)));
    },

    findActor: (userId: string): Promise<Actor | undefined> => findOneActor(active(userId)),

    async findActors(userIds: readonly string[]): Promise<Actor[]> {
      const found = existing()
        .whereRaw('u.id = any(?)', [[...userIds]])
        .whereNull('u.disabledAt');
      return (await queryRows(db, actorRow, found.select(db.raw(actorColumns)))).map(toActor);
    },

    findCaller(userId: string, sessionId: string): Promise<Actor | undefined> {
      const caller = active(userId)
        .join('refresh_token_families as f', 'f.user_id', 'u.id')
        .where('f.id', sessionId)
        .whereNull('f.cutOffAt');
      return findOneActor(caller);
    },

    /** Finds the user of an API key, unless the key has expired or was revoked. */
    async findKeyCaller(secretHash: Buffer): Promise<ApiKeyCaller | undefined> {
      const caller = existing()
        .join('api_keys as k', 'k.user_id', 'u.id')
        .where('k.secretHash', secretHash)
        .whereNull('u.disabledAt')
        .whereRaw(isKeyLive)
        .select(db.raw(actorColumns), 'k.secretId', 'k.scopes')
        .select(
          db.raw('coalesce(k.last_used_at < now() - make_interval(secs => ?), true) as is_use_outdated', [
            keyUseSeconds,
          ]),
        );
      const row = await queryFirstRow(db, keyCaller, caller);
      if (row === undefined) return undefined;
      const { secretId, scopes, isUseOutdated, ...actor } = row;
      return { actor: toActor(actor), secretId, scopes, isUseOutdated };
    },

    async recordKeyUse(secretId: string): Promise<void> {
      await ApiKeyModel.query(db).where({ secretId }).patch({ lastUsedAt: db.fn.now() });
    },

    /**
     * Returns the ids of sessions that have not ended, and of secrets of API keys that still work. Excludes those of
     * disabled users.
     */
    async listActiveSessions(ids: readonly string[]): Promise<string[]> {
      const open = existing()
        .join('refresh_token_families as f', 'f.user_id', 'u.id')
        .whereRaw('f.id = any(?)', [[...ids]])
        .whereNull('u.disabledAt')
        .whereNull('f.cutOffAt')
        .select('f.id');
      const keys = existing()
        .join('api_keys as k', 'k.user_id', 'u.id')
        .whereRaw('k.secret_id = any(?)', [[...ids]])
        .whereNull('u.disabledAt')
        .whereRaw(isKeyLive)
        .select('k.secretId as id');
      const active = await queryRows(db, pickColumns(RefreshTokenFamilyModel, 'id'), open.unionAll(keys));
      return active.map(({ id }) => id);
    },

    /**
     * Locks the user's row if it still has this password hash. With 'share', other transactions may hold the lock too:
     * it only keeps the row from being changed. A transaction that changes the row itself needs 'update'.
     */
    async lockPassword(userId: string, hash: string | null, lock: 'share' | 'update'): Promise<boolean> {
      const user = UserModel.table(db).where({ id: userId, passwordHash: hash }).whereNull('deletedAt');
      const row = await (lock === 'share' ? user.forShare() : user.forNoKeyUpdate()).first('id');
      return row !== undefined;
    },

    async lock(account: { id: string; email?: string }): Promise<boolean> {
      const row = await UserModel.table(db).where(account).whereNull('deletedAt').forNoKeyUpdate().first('id');
      return row !== undefined;
    },

    async removePassword(userId: string): Promise<void> {
      await UserModel.query(db).where({ id: userId }).patch({ passwordHash: null, updatedAt: db.fn.now() });
    },

    async setAvatarUrl(userId: string, avatarUrl: string | null): Promise<void> {
      await UserModel.query(db)
        .where({ id: userId })
        .whereRaw('avatar_url is distinct from ?', [avatarUrl])
        .patch({ avatarUrl, updatedAt: db.fn.now() });
    },

    async renewHash(userId: string, from: string, to: string): Promise<boolean> {
      return (await UserModel.table(db).where({ id: userId, passwordHash: from }).update({ passwordHash: to })) === 1;
    },

    /** Stores a new password hash. Returns false if the stored hash is no longer `from` (null: no password). */
    async replacePassword(userId: string, from: string | null, to: string): Promise<boolean> {
      const updated = await UserModel.table(db)
        .where({ id: userId, passwordHash: from })
        .update({ passwordHash: to, updatedAt: db.fn.now() });
      return updated === 1;
    },

    async insertOrganization(organization: { id: string; name: string }): Promise<void> {
      await OrganizationModel.query(db).insert(organization);
    },

    async insert({ userId, ...user }: NewUser, membership: NewMembership): Promise<boolean> {
      const inserted = await UserModel.table(db)
        .insert({ id: userId, ...user })
        .onConflict(db.raw('(email) where deleted_at is null'))
        .ignore()
        .returning('id');
      if (inserted.length === 0) return false;
      await MembershipModel.query(db).insert({ userId, ...membership });
      return true;
    },
  };
}

type IdentityKey = Pick<VerifiedIdentity, 'issuer' | 'subject'>;

export function createIdentitiesRepository(db: Knex) {
  return {
    async findUserId({ issuer, subject }: IdentityKey): Promise<string | undefined> {
      const row = await UserIdentityModel.table(db).where({ issuer, subject }).first('userId');
      return row?.userId;
    },

    async isLinkedToAnother({ issuer, subject }: IdentityKey, userId: string): Promise<boolean> {
      const row = await UserIdentityModel.table(db).where({ userId, issuer }).whereNot({ subject }).first('subject');
      return row !== undefined;
    },

    /**
     * Links an identity to a user. Returns false if the identity is linked already, or the user has another identity of
     * the same issuer.
     */
    async insert({ issuer, subject }: IdentityKey, userId: string): Promise<boolean> {
      const inserted = await UserIdentityModel.table(db)
        .insert({ issuer, subject, userId })
        .onConflict()
        .ignore()
        .returning('userId');
      return inserted.length > 0;
    },
  };
}

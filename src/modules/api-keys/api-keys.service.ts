import { createHash, randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import { v4 as uuidv4, v7 as uuidv7 } from 'uuid';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { type ApiKeyScope, apiKeyPrefix } from '#src/domain/access/api-keys.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { AccountDeletionService } from '#src/modules/members/account-deletion.service.ts';
import type { AccessRightsChangesService } from '#src/modules/organization/organization.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { ApiKey } from './api-keys.model.ts';
import { createApiKeysRepository } from './api-keys.repository.ts';

/** Each key has rate limits of its own, so the number of keys bounds what an organization may ask for. */
const MAX_KEYS = 50;
const secretBytes = 32;

export type ApiKeysService = ReturnType<typeof createApiKeysService>;

type NewApiKey = {
  name: string;
  scopes: readonly ApiKeyScope[];
  teamIds: readonly string[];
  expiresAt: Date | null;
};

/** The secret is shown once: the database has only its hash. */
export type ApiKeyWithSecret = ApiKey & { secret: string };

/**
 * Keys with which programs use the API. A key acts as a user of its own, who is in no list of members: it outlives the
 * admin who made it, owns what it makes, and never reads what is personal to that admin.
 */
export function createApiKeysService(deps: {
  db: Knex;
  accounts: Pick<AccountsService, 'create'>;
  teams: Pick<TeamsService, 'addMember'>;
  accessChanges: Pick<AccessRightsChangesService, 'administer'>;
  accountDeletion: Pick<AccountDeletionService, 'revokeApiKey'>;
  audit: AuditService;
}) {
  const { db, accounts, teams, accessChanges, accountDeletion, audit } = deps;

  async function get(trx: Knex, orgId: string, id: string): Promise<ApiKey> {
    const key = await createApiKeysRepository(trx).find(orgId, id);
    if (key === undefined) throw appError('api_key_not_found');
    return key;
  }

  return {
    list: (
      { orgId }: RequestActor,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ApiKey[]; last: ListPosition | null }> => createApiKeysRepository(db).list(orgId, page),

    /** Throws `api_key_limit_reached`, `team_not_found`. */
    async create(actor: RequestActor, { name, scopes, teamIds, expiresAt }: NewApiKey): Promise<ApiKeyWithSecret> {
      const { orgId, userId: createdBy, requestId } = actor;
      return accessChanges.administer(actor, async (trx) => {
        const keys = createApiKeysRepository(trx);
        if ((await keys.count(orgId)) >= MAX_KEYS) {
          throw appError('api_key_limit_reached', {
            detail: `An organization may have at most ${MAX_KEYS} API keys. Revoke one that is no longer used.`,
          });
        }
        const id = uuidv7();
        // Users need an email. No mail server can have this domain (RFC 2606).
        const user = { userId: id, email: `${id}@api-keys.invalid`, passwordHash: null, isApiKey: true };
        const rights = {
          isOrgAdmin: scopes.includes('administer'),
          contributesToOrganization: scopes.includes('ingest'),
        };
        await accounts.create(
          trx,
          { ...user, firstName: null, lastName: null, displayName: name },
          { orgId, ...rights, addedBy: createdBy },
        );
        for (const teamId of teamIds) {
          const member = { isTeamAdmin: false, isEntrusted: false, addedBy: createdBy };
          await teams.addMember(trx, { ...member, orgId, teamId, userId: id });
        }
        const { secret, ...stored } = makeSecret();
        await keys.insert({ ...stored, userId: id, orgId, scopes: [...scopes], expiresAt, createdBy });
        const entry = { orgId, actorId: createdBy, action: 'api_key.created', target: id, requestId };
        await audit.record(trx, { ...entry, detail: { scopes: scopes.join(' ') } });
        return { ...(await get(trx, orgId, id)), secret };
      });
    },

    /** Replaces the secret of a key; the previous one stops working at once. Throws `api_key_not_found`. */
    async rotate(actor: RequestActor, id: string, expiresAt: Date | null): Promise<ApiKeyWithSecret> {
      const { orgId, userId, requestId } = actor;
      return accessChanges.administer(actor, async (trx) => {
        const { secret, ...stored } = makeSecret();
        const isThere = await createApiKeysRepository(trx).replaceSecret(orgId, id, { ...stored, expiresAt });
        if (!isThere) throw appError('api_key_not_found');
        await audit.record(trx, { orgId, actorId: userId, action: 'api_key.rotated', target: id, requestId });
        return { ...(await get(trx, orgId, id)), secret };
      });
    },

    /** Ends a key at once. What only the key could read is erased like that of a removed member. */
    async revoke(actor: RequestActor, id: string): Promise<void> {
      await accountDeletion.revokeApiKey(actor, (trx) => get(trx, actor.orgId, id));
    },
  };
}

function makeSecret() {
  const secret = `${apiKeyPrefix}${randomBytes(secretBytes).toString('base64url')}`;
  // The secret is random: guessing cannot reverse its hash, which needs neither salt nor a slow function.
  const secretHash = createHash('sha256').update(secret).digest();
  return { secret, secretId: uuidv4(), secretHash, hint: secret.slice(-4) };
}

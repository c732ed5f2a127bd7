import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { AppError } from '#src/errors.ts';
import type { OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type { ConnectorAccesses } from '#src/ports/connectors.ts';
import type { OAuthClient } from '#src/ports/identity.ts';
import type { Connection } from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';

/**
 * Ends a grant where its provider lets us, unless another connection may live by it.
 * @param leaving the id of the connection that it is stored for until then; of one that is stored nowhere none
 */
export type RevokeGrant = (
  of: Pick<Connection, 'provider' | 'accountId' | 'config'>,
  grant: OAuthGrant,
  leaving?: string,
) => Promise<void>;

export function createGrantRevoker(deps: {
  db: Knex;
  access: ConnectorAccesses;
  oauth: Pick<OAuthClient, 'revoke'>;
  logger: Pick<Logger, 'warn'>;
}): RevokeGrant {
  const { db, access, oauth, logger } = deps;

  return async ({ provider, accountId, config }, { accessToken, refreshToken }, leaving) => {
    const how = provider === 'acme_s3' ? null : access.consents[provider];
    if (how === null) return;
    try {
      // Providers like Google end all grants of an account with one, and another connection may live by the older.
      if (await createConnectionsRepository(db).isAccountUsed(provider, accountId, leaving)) return;
      const { revoke } = access.connectors[provider];
      if (revoke === null) await oauth.revoke(how.settings, refreshToken ?? accessToken);
      else await revoke({ kind: 'oauth', accessToken, siteId: config.site_id ?? null });
    } catch (error) {
      // Not worth a request that fails: it ends by itself, or its owner ends it at the provider.
      logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
    }
  };
}

import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import { appError } from '#src/errors.ts';
import type { ConnectorAccess, ConnectorAccesses, ConnectorOAuth } from '#src/ports/connectors.ts';
import type { Connection, ConnectionCredentials } from './connections.model.ts';

/** Amazon's oldest, which stores without regions go by, too. */
const defaultRegion = 'us-east-1';

/** What opens a connection with these credentials. */
export function accessOf({ config }: Pick<Connection, 'config'>, credentials: ConnectionCredentials): ConnectorAccess {
  if (credentials.kind === 'oauth') {
    return { kind: 'oauth', accessToken: credentials.accessToken, siteId: config.site_id ?? null };
  }
  const { bucket = '', prefix = '', region = defaultRegion, endpoint = null } = config;
  const forcePathStyle = config.force_path_style ?? endpoint !== null;
  return { ...credentials, bucket, prefix, region, endpoint, forcePathStyle };
}

/** Throws `wrong_auth_kind`, `provider_not_configured`. */
export function consentAt(
  { consents }: ConnectorAccesses,
  provider: ConnectorProvider,
): ConnectorOAuth & { provider: OAuthConnectorProvider } {
  if (provider === 'acme_s3') throw appError('wrong_auth_kind', { detail: 'It is connected by keys.' });
  const how = consents[provider];
  if (how === null) throw appError('provider_not_configured');
  return { ...how, provider };
}

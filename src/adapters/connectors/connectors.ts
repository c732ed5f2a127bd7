import type { Dispatcher } from 'undici';
import { googleOAuthProvider } from '#src/adapters/providers.ts';
import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { ConnectorOAuth, ConnectorRegistry } from '#src/ports/connectors.ts';
import type { OAuthProvider } from '#src/ports/identity.ts';
import type { ProviderHttpClient } from '#src/ports/web.ts';
import { createDriveConnector } from './drive-connector.ts';
import { createDropboxConnector } from './dropbox-connector.ts';
import { createGraphConnector } from './graph-connector.ts';
import { createS3Connector } from './s3-connector.ts';

type OAuthSettings = { baseUrl: string | null; client: OAuthProvider['client'] };

function connectorOAuth(provider: OAuthConnectorProvider, settings: OAuthSettings): ConnectorOAuth {
  if (provider === 'acme_drive') {
    const scopes = ['https://www.googleapis.com/auth/drive.readonly'];
    return { settings: googleOAuthProvider(settings.baseUrl, settings.client), scopes };
  }
  if (provider === 'acme_dropbox') return dropboxOAuth(settings);
  const scope = provider === 'acme_onedrive' ? 'Files.Read.All' : 'Sites.Read.All';
  return { settings: graphOAuth(settings), scopes: ['offline_access', 'User.Read', scope] };
}

function graphOAuth({ baseUrl, client }: OAuthSettings): OAuthProvider {
  const root = `${baseUrl ?? 'https://login.microsoftonline.com'}/common`;
  return {
    issuer: `${root}/v2.0`,
    authorizeUrl: `${root}/oauth2/v2.0/authorize`,
    tokenUrl: `${root}/oauth2/v2.0/token`,
    revokeUrl: null,
    client,
    // Lets the user choose a Microsoft account. Otherwise Microsoft would silently connect the account that is signed
    // in.
    authorizeParameters: { prompt: 'select_account' },
  };
}

function dropboxOAuth({ baseUrl, client }: OAuthSettings): ConnectorOAuth {
  return {
    settings: {
      issuer: baseUrl ?? 'https://www.dropbox.com',
      authorizeUrl: `${baseUrl ?? 'https://www.dropbox.com'}/oauth2/authorize`,
      tokenUrl: `${baseUrl ?? 'https://api.dropboxapi.com'}/oauth2/token`,
      revokeUrl: null,
      client,
      authorizeParameters: { token_access_type: 'offline' },
    },
    scopes: ['account_info.read', 'files.metadata.read', 'files.content.read'],
  };
}

type ConnectorSettings = Readonly<
  Record<OAuthConnectorProvider, { baseUrl: string | null; client: OAuthProvider['client'] | null }> & {
    acme_s3: { baseUrl: string | null };
  }
>;

export function createConnectors(
  settings: ConnectorSettings,
  deps: { call: ProviderHttpClient; agent: Dispatcher },
): ConnectorRegistry {
  const depsOf = (provider: keyof ConnectorSettings) => ({ ...deps, baseUrl: settings[provider].baseUrl });
  const consentAt = (provider: OAuthConnectorProvider) => {
    const { baseUrl, client } = settings[provider];
    return client && connectorOAuth(provider, { baseUrl, client });
  };
  return {
    connectors: {
      acme_drive: createDriveConnector(depsOf('acme_drive')),
      acme_onedrive: createGraphConnector({ ...depsOf('acme_onedrive'), provider: 'acme_onedrive' }),
      acme_sharepoint: createGraphConnector({ ...depsOf('acme_sharepoint'), provider: 'acme_sharepoint' }),
      acme_dropbox: createDropboxConnector(depsOf('acme_dropbox')),
      acme_s3: createS3Connector(depsOf('acme_s3')),
    },
    consents: {
      acme_drive: consentAt('acme_drive'),
      acme_onedrive: consentAt('acme_onedrive'),
      acme_sharepoint: consentAt('acme_sharepoint'),
      acme_dropbox: consentAt('acme_dropbox'),
    },
  };
}

import type { Dispatcher } from 'undici';
import type { OAuthConnectorProvider } from '#src/domain/documents/imports.ts';
import type { ConnectorAccesses } from '#src/ports/connectors.ts';
import type { OAuthProvider } from '#src/ports/identity.ts';
import type { ProviderCaller } from '#src/ports/web.ts';
import { connectorOAuth } from './connector-oauth.ts';
import { createDriveConnector } from './drive-connector.ts';
import { createDropboxConnector } from './dropbox-connector.ts';
import { createGraphConnector } from './graph-connector.ts';
import { createS3Connector } from './s3-connector.ts';

/** Base URLs are null for the providers' own addresses, clients where there are none to ask for consents with. */
export type ConnectorSettings = Readonly<
  Record<OAuthConnectorProvider, { baseUrl: string | null; client: OAuthProvider['client'] | null }> & {
    acme_s3: { baseUrl: string | null };
  }
>;

/** @param deps.agent a guarded one, for what is too long or too much for `call` */
export function createConnectors(
  settings: ConnectorSettings,
  deps: { call: ProviderCaller; agent: Dispatcher },
): ConnectorAccesses {
  const at = (provider: keyof ConnectorSettings) => ({ ...deps, baseUrl: settings[provider].baseUrl });
  const consentAt = (provider: OAuthConnectorProvider) => {
    const { baseUrl, client } = settings[provider];
    return client && connectorOAuth(provider, { baseUrl, client });
  };
  return {
    connectors: {
      acme_drive: createDriveConnector(at('acme_drive')),
      acme_onedrive: createGraphConnector({ ...at('acme_onedrive'), provider: 'acme_onedrive' }),
      acme_sharepoint: createGraphConnector({ ...at('acme_sharepoint'), provider: 'acme_sharepoint' }),
      acme_dropbox: createDropboxConnector(at('acme_dropbox')),
      acme_s3: createS3Connector(at('acme_s3')),
    },
    consents: {
      acme_drive: consentAt('acme_drive'),
      acme_onedrive: consentAt('acme_onedrive'),
      acme_sharepoint: consentAt('acme_sharepoint'),
      acme_dropbox: consentAt('acme_dropbox'),
    },
  };
}

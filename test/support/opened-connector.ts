import { createDriveConnector } from '#src/adapters/connectors/drive-connector.ts';
import { createDropboxConnector } from '#src/adapters/connectors/dropbox-connector.ts';
import { createGraphConnector } from '#src/adapters/connectors/graph-connector.ts';
import type { ConnectorDeps } from '#src/adapters/connectors/provider-api.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { Connector, OAuthConnectorAccess } from '#src/ports/connectors.ts';
import { type FakeFiles, startFakeDrive } from './fake-drive.ts';
import { startFakeDropbox } from './fake-dropbox.ts';
import { fakeSiteId, startFakeGraph } from './fake-graph.ts';

/** A connector and the fake provider that it calls. */
export type OpenedConnector = {
  fake: FakeFiles;
  connector: Connector;
  /** Returns access with a valid token. */
  newAccess(): OAuthConnectorAccess;
  close(): Promise<void>;
};

const fakes = {
  acme_drive: startFakeDrive,
  acme_onedrive: startFakeGraph,
  acme_sharepoint: startFakeGraph,
  acme_dropbox: startFakeDropbox,
};

export async function openConnector(provider: OAuthConnectorProvider): Promise<OpenedConnector> {
  const fake = await fakes[provider]();
  const agent = createGuardedAgent({ allow: fake.place.split(',') });
  const siteId = provider === 'acme_sharepoint' ? fakeSiteId : null;
  return {
    fake,
    connector: connectorOf(provider, { agent, call: createProviderHttpClient({ agent }), baseUrl: fake.baseUrl }),
    newAccess: () => ({ kind: 'oauth', accessToken: fake.token(), siteId }),
    close: async () => {
      await agent.close();
      await fake.close();
    },
  };
}

function connectorOf(provider: OAuthConnectorProvider, deps: ConnectorDeps): Connector {
  if (provider === 'acme_drive') return createDriveConnector(deps);
  if (provider === 'acme_dropbox') return createDropboxConnector(deps);
  return createGraphConnector({ ...deps, provider });
}

import { createDriveConnector } from '#src/adapters/connectors/drive-connector.ts';
import { createDropboxConnector } from '#src/adapters/connectors/dropbox-connector.ts';
import { createGraphConnector } from '#src/adapters/connectors/graph-connector.ts';
import type { ConnectorDeps } from '#src/adapters/connectors/provider-api.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { Connector, OAuthConnectorAccess } from '#src/ports/connectors.ts';
import { startFakeDrive } from './fake-drive.ts';
import { startFakeDropbox } from './fake-dropbox.ts';
import { fakeSiteId, startFakeGraph } from './fake-graph.ts';

export type OpenedConnector = Awaited<ReturnType<typeof openConnector>>;

const ofGraph = (provider: 'acme_onedrive' | 'acme_sharepoint') => (deps: ConnectorDeps) =>
  createGraphConnector({ ...deps, provider });

const connectors = {
  acme_drive: [startFakeDrive, createDriveConnector],
  acme_onedrive: [startFakeGraph, ofGraph('acme_onedrive')],
  acme_sharepoint: [startFakeGraph, ofGraph('acme_sharepoint')],
  acme_dropbox: [startFakeDropbox, createDropboxConnector],
} as const;

/** A connector and the fake provider that it calls. */
export async function openConnector(provider: OAuthConnectorProvider) {
  const [startFake, create] = connectors[provider];
  const fake = await startFake();
  const agent = createGuardedAgent({ allow: fake.place.split(',') });
  const siteId = provider === 'acme_sharepoint' ? fakeSiteId : null;
  const connector: Connector = create({
    agent,
    call: createProviderHttpClient({ agent }),
    baseUrl: fake.baseUrl,
  });
  return {
    fake,
    connector,
    /** Returns access with a valid token. */
    newAccess: (): OAuthConnectorAccess => ({ kind: 'oauth', accessToken: fake.token(), siteId }),
    close: async () => {
      await agent.close();
      await fake.close();
    },
  };
}

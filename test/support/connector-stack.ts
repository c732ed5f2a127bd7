import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { Member } from './client.ts';
import { type Consent, consentAt, finishConsent } from './consents.ts';
import { startFakeDrive } from './fake-drive.ts';
import { startFakeDropbox } from './fake-dropbox.ts';
import { fakeSiteId, startFakeGraph } from './fake-graph.ts';
import type { Choice } from './fake-oauth.ts';
import type { FakeFiles } from './remote-tree.ts';
import { s3Hosts, type TestBucket } from './s3.ts';
import { type Stack, shared, startStack } from './stack.ts';

/** An API with a fake server on this machine for each file provider. */
export type ConnectorStack = Stack & { fakes: Record<OAuthConnectorProvider, FakeFiles> };

export const frontendUrl = 'https://app.example.com';

/** The stack that all tests of a process share; it has no workers. */
export const connectorStack = shared(() => startConnectorStack());

export async function startConnectorStack(
  { EGRESS_ALLOW = '', ...settings }: Record<string, string> = {},
  { workers }: { workers: boolean } = { workers: false },
): Promise<ConnectorStack> {
  const fakes = {
    acme_drive: await startFakeDrive(),
    acme_onedrive: await startFakeGraph(),
    acme_sharepoint: await startFakeGraph(),
    acme_dropbox: await startFakeDropbox(),
  };
  const clients = Object.entries(fakes).flatMap(([provider, { baseUrl, client }]) => [
    [`${provider.toUpperCase()}_BASE_URL`, baseUrl],
    [`${provider.toUpperCase()}_CLIENT_ID`, client.id],
    [`${provider.toUpperCase()}_CLIENT_SECRET`, client.secret],
  ]);
  const hosts = [...Object.values(fakes).map(({ place }) => place), ...s3Hosts(), EGRESS_ALLOW].filter(Boolean);
  const own = { EGRESS_ALLOW: hosts.join(), FRONTEND_URL: frontendUrl, CORS_ORIGINS: 'https://other.example.com' };
  const stack = await startStack({ ...Object.fromEntries(clients), ...own, ...settings }, { workers, schedules: true });
  return {
    ...stack,
    fakes,
    close: async () => {
      await stack.close();
      await Promise.all(Object.values(fakes).map((fake) => fake.close()));
    },
  };
}

/** Consents at the provider. @returns path and query of the callback URL to which the provider redirects */
export function consentTo(
  { fakes }: Pick<ConnectorStack, 'fakes'>,
  member: Member,
  provider: OAuthConnectorProvider,
  { query = {}, ...choice }: Consent = {},
): Promise<string> {
  const site = provider === 'acme_sharepoint' ? { site_id: fakeSiteId } : {};
  return consentAt(fakes[provider], member, `/connectors/oauth/${provider}`, {
    query: { ...site, ...query },
    ...choice,
  });
}

/** Consents and finishes. @returns the connection as its owner sees it */
export async function connect(
  stack: Pick<ConnectorStack, 'fakes' | 'anonymous'>,
  member: Member,
  provider: OAuthConnectorProvider,
  choice: Choice = {},
) {
  const { body } = await finishConsent(stack, member, await consentTo(stack, member, provider, choice));
  return Object(body).connection;
}

/** Body of `POST /connectors/acme_s3/connections` for a test bucket. */
export function s3Fields({ settings }: Pick<TestBucket, 'settings'>, config: object = {}) {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = settings;
  return {
    display_name: 'Reports',
    credentials: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
    config: { bucket, endpoint, ...config },
  };
}

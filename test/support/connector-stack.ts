import type { OAuthConnectorProvider } from '#src/domain/connector-providers.ts';
import type { Member } from './client.ts';
import { type FakeFiles, startFakeDrive } from './fake-drive.ts';
import { startFakeDropbox } from './fake-dropbox.ts';
import { fakeSiteId, startFakeGraph } from './fake-graph.ts';
import type { Choice } from './fake-oauth.ts';
import { s3Place, type TestBucket } from './s3.ts';
import { type Stack, startStack } from './stack.ts';

/** An API whose providers of files are on this machine. */
export type ConnectorStack = Stack & { fakes: Record<OAuthConnectorProvider, FakeFiles> };

export const frontendUrl = 'https://app.example.com';

let shared: Promise<ConnectorStack> | undefined;

/** The one that all tests of a run share; it has no workers. */
export function connectorStack(): Promise<ConnectorStack> {
  shared ??= startConnectorStack();
  return shared;
}

after(async function closeConnectorStack() {
  this.timeout(60_000);
  await (await shared)?.close();
});

export async function startConnectorStack(
  { EGRESS_ALLOW = '', ...settings }: Record<string, string> = {},
  parts = { workers: false },
): Promise<ConnectorStack> {
  const [acme_drive, acme_onedrive, acme_sharepoint, acme_dropbox] = await Promise.all([
    startFakeDrive(),
    startFakeGraph(),
    startFakeGraph(),
    startFakeDropbox(),
  ]);
  const fakes = { acme_drive, acme_onedrive, acme_sharepoint, acme_dropbox };
  const clients = Object.entries(fakes).flatMap(([provider, { baseUrl, client }]) => [
    [`${provider.toUpperCase()}_BASE_URL`, baseUrl],
    [`${provider.toUpperCase()}_CLIENT_ID`, client.id],
    [`${provider.toUpperCase()}_CLIENT_SECRET`, client.secret],
  ]);
  const places = [...Object.values(fakes).map(({ place }) => place), ...s3Place(), EGRESS_ALLOW].filter(Boolean);
  const stack = await startStack(
    {
      ...Object.fromEntries(clients),
      EGRESS_ALLOW: places.join(),
      FRONTEND_URL: frontendUrl,
      CORS_ORIGINS: 'https://other.example.com',
      ...settings,
    },
    parts,
  );
  return {
    ...stack,
    fakes,
    close: async () => {
      await stack.close();
      await Promise.all(Object.values(fakes).map((fake) => fake.close()));
    },
  };
}

/** Where a consent begins. */
export async function beginConsent(
  member: Member,
  provider: OAuthConnectorProvider,
  query: Record<string, string> = {},
): Promise<string> {
  const site = provider === 'acme_sharepoint' ? { site_id: fakeSiteId } : {};
  const search = new URLSearchParams({ ...site, ...query });
  const { body } = await member.get(`/connectors/oauth/${provider}/authorize?${search}`, 200);
  return String(Object(body).authorize_url);
}

/** The address that the browser of a user comes back to, without the origin. */
export async function consentTo(
  { fakes }: Pick<ConnectorStack, 'fakes'>,
  member: Member,
  provider: OAuthConnectorProvider,
  { query = {}, ...choice }: Choice & { query?: Record<string, string> } = {},
): Promise<string> {
  const back = await fakes[provider].consent(await beginConsent(member, provider, query), choice);
  return `${back.pathname}${back.search}`;
}

/** The connection that a consent has led to, as its owner sees it. */
export async function connect(
  stack: Pick<ConnectorStack, 'fakes' | 'anonymous'>,
  member: Member,
  provider: OAuthConnectorProvider,
  choice: Choice = {},
) {
  const { body } = await stack.anonymous.get(await consentTo(stack, member, provider, choice), 200);
  return Object(body).connection;
}

/** What `POST /connectors/acme_s3/connections` takes for a bucket of the tests. */
export function s3Fields({ settings }: TestBucket, config: object = {}) {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = settings;
  return {
    display_name: 'Reports',
    credentials: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
    config: { bucket, endpoint, ...config },
  };
}

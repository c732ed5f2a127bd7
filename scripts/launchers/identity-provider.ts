import { join, relative } from 'node:path';
import { openProviderFolder, type ProviderFolder } from '../identity-provider/provider-folder.ts';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { answersOk } from './http-probe.ts';
import { serviceEnvironment } from './service-environment.ts';

const ENTRY = join(import.meta.dirname, '..', 'identity-provider', 'main.ts');
const CLIENT_ID = 'agent-conversation-service';

export type LocalProvider = {
  port: number;
  folder: ProviderFolder;
  settings: Record<
    'SSO_ISSUER' | 'SSO_CLIENT_ID' | 'SSO_CLIENT_SECRET' | 'SSO_REDIRECT_URI' | 'SSO_REDIRECT_ORIGINS',
    string
  >;
};

/**
 * Opens the provider's files and creates the settings of the service. A sign-in ends at the provider's landing page, or
 * at the frontend that SSO_REDIRECT_URI and SSO_REDIRECT_ORIGINS name.
 * @param given environment variables of the user
 * @throws StartFailure if they name another provider, or the package `oidc-provider` is not installed
 */
export async function openLocalProvider(
  dataDir: string,
  { port }: { port: number },
  given: Record<string, string | undefined>,
): Promise<LocalProvider> {
  for (const setting of ['SSO_ISSUER', 'SSO_CLIENT_ID', 'SSO_CLIENT_SECRET']) {
    if (given[setting])
      throw new StartFailure(`${setting} names another provider: start without it, or without --with-sso.`);
  }
  checkIsInstalled('oidc-provider');
  const issuer = `http://127.0.0.1:${port}`;
  const redirectUri = given.SSO_REDIRECT_URI || `${issuer}/signed-in`;
  const chosen = (given.SSO_REDIRECT_ORIGINS ?? '').split(',').map((origin) => origin.trim());
  const folder = await openProviderFolder(join(dataDir, 'identity-provider'));
  return {
    port,
    folder,
    settings: {
      SSO_ISSUER: issuer,
      SSO_CLIENT_ID: CLIENT_ID,
      SSO_CLIENT_SECRET: folder.clientSecret,
      SSO_REDIRECT_URI: redirectUri,
      SSO_REDIRECT_ORIGINS: [...new Set([issuer, originOf(redirectUri), ...chosen])].filter(Boolean).join(','),
    },
  };
}

/**
 * Checks that a package is installed: oidc-provider is a development dependency, and without this check its absence
 * would show only in a log.
 */
export function checkIsInstalled(name: string): void {
  try {
    import.meta.resolve(name);
  } catch {
    throw new StartFailure(`--with-sso needs the package ${name}, which npm installs without --omit=dev.`);
  }
}

/** Returns an empty string for an invalid URL; the service reports the invalid setting itself. */
function originOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).origin : '';
}

export function identityProvider({ port, folder, settings }: LocalProvider, apiUrl: string): ChildSpec {
  return {
    name: 'identity-provider',
    command: [process.execPath, ENTRY],
    env: serviceEnvironment(
      {
        PORT: String(port),
        DATA_DIR: folder.path,
        CLIENT_ID,
        REDIRECT_ORIGINS: settings.SSO_REDIRECT_ORIGINS,
        API_URL: apiUrl,
      },
      ['NODE_COMPILE_CACHE'],
    ),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`${settings.SSO_ISSUER}/.well-known/openid-configuration`),
    restartIfSilent: true,
  };
}

export function howToSignIn({ folder, settings }: LocalProvider, apiUrl: string): string[] {
  const request = `curl -X POST ${apiUrl}/auth/sso/authorize -H 'Content-Type: application/json' -d '{"provider": "acme"}'`;
  const [first] = folder.accounts;
  const { SSO_ISSUER: issuer, SSO_REDIRECT_URI: redirectUri } = settings;
  const end = redirectUri.startsWith(`${issuer}/`)
    ? 'Make the request that the last page shows: it answers with tokens.'
    : `The browser comes back to ${redirectUri} with code and state.`;
  return [
    '  To sign in with the identity provider on this machine:',
    `    1. ${request}`,
    '    2. Open the address that it answers in a browser.',
    ...(first ? [`    3. Sign in there as ${first.login} with the password ${first.password}`] : []),
    `    4. ${end}`,
    `  All of its accounts: ${relative(process.cwd(), folder.accountsPath)}`,
  ];
}

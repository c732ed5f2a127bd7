import type { OAuthConnectorProvider } from '#src/domain/documents/imports.ts';
import type { ConnectorOAuth } from '#src/ports/connectors.ts';
import type { OAuthProvider } from '#src/ports/identity.ts';

/** `baseUrl` is null for the provider itself, whose parts have hosts of their own. */
type Place = { baseUrl: string | null; client: OAuthProvider['client'] };

/** Rights to read, and no others. */
export function connectorOAuth(provider: OAuthConnectorProvider, place: Place): ConnectorOAuth {
  if (provider === 'acme_drive') return drive(place);
  if (provider === 'acme_dropbox') return dropbox(place);
  const right = provider === 'acme_onedrive' ? 'Files.Read.All' : 'Sites.Read.All';
  return { settings: graph(place), scopes: ['offline_access', 'User.Read', right] };
}

function drive({ baseUrl, client }: Place): ConnectorOAuth {
  return {
    settings: {
      issuer: baseUrl ?? 'https://accounts.google.com',
      authorizeUrl: `${baseUrl ?? 'https://accounts.google.com'}/o/oauth2/v2/auth`,
      tokenUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/token`,
      revokeUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/revoke`,
      client,
      // Only so does Google give a refresh token, and give it again to who has consented before.
      authorizeParameters: { access_type: 'offline', prompt: 'consent' },
    },
    scopes: ['https://www.googleapis.com/auth/drive.readonly'],
  };
}

function graph({ baseUrl, client }: Place): OAuthProvider {
  const root = `${baseUrl ?? 'https://login.microsoftonline.com'}/common`;
  return {
    issuer: `${root}/v2.0`,
    authorizeUrl: `${root}/oauth2/v2.0/authorize`,
    tokenUrl: `${root}/oauth2/v2.0/token`,
    revokeUrl: null,
    client,
    // Whoever is signed in with one account may mean another.
    authorizeParameters: { prompt: 'select_account' },
  };
}

function dropbox({ baseUrl, client }: Place): ConnectorOAuth {
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

import type { OAuthProvider } from '#src/ports/identity.ts';

/** `baseUrl` is null for Google's own hosts. */
export function googleOAuth(baseUrl: string | null, client: OAuthProvider['client']): OAuthProvider {
  return {
    issuer: baseUrl ?? 'https://accounts.google.com',
    authorizeUrl: `${baseUrl ?? 'https://accounts.google.com'}/o/oauth2/v2/auth`,
    tokenUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/token`,
    revokeUrl: `${baseUrl ?? 'https://oauth2.googleapis.com'}/revoke`,
    client,
    // Required for a refresh token, also after an earlier consent.
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  };
}

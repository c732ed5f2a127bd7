/** What an API key may be used for. A key may have several scopes; none of them includes another. */
export const apiKeyScopes = ['read', 'chat', 'ingest', 'evaluate', 'administer'] as const;

export type ApiKeyScope = (typeof apiKeyScopes)[number];

/** Begins every secret of an API key, so that scanners for leaked secrets recognize it. Access tokens begin with `ey`. */
export const apiKeyPrefix = 'acs_';

export const isApiKeySecret = (token: string): boolean => token.startsWith(apiKeyPrefix);

import type { OAuthGrant, StoredCredentials } from '#src/modules/credentials/stored-credentials.service.ts';

export type ConnectionStatus = 'active' | 'needs_reauth';

/** An organization's way to a provider; it has one at most. */
export type ToolConnection = StoredCredentials & {
  status: ConnectionStatus;
  createdAt: Date;
  updatedAt: Date;
};

export type ApiKey = { kind: 'api_key'; apiKey: string };

export type Credentials = ApiKey | OAuthGrant;

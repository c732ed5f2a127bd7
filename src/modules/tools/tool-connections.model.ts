export type ConnectionStatus = 'active' | 'needs_reauth';

/** An organization's way to a provider; it has one at most. */
export type ToolConnection = {
  id: string;
  orgId: string;
  provider: string;
  status: ConnectionStatus;
  /** {@link Credentials} as JSON, sealed for the row. */
  credentials: string;
  /** What was really granted. */
  scopes: string[];
  /** Of the access token; null where there is none, or nobody knows. */
  expiresAt: Date | null;
  /** Changes with the credentials. */
  generation: number;
  createdAt: Date;
  updatedAt: Date;
};

export type Credentials =
  | { kind: 'api_key'; apiKey: string }
  | { kind: 'oauth'; accessToken: string; refreshToken: string | null };

/** Names one state of a connection: nothing is changed once it has another one. */
export type ConnectionState = Pick<ToolConnection, 'orgId' | 'id' | 'generation'>;

/** What changes when credentials do; they are sealed. */
export type NewCredentials = Pick<ToolConnection, 'credentials' | 'scopes' | 'expiresAt'>;

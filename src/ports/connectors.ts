import type { Readable } from 'node:stream';
import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { OAuthProvider } from './identity.ts';

export type ConnectorOAuth = { settings: OAuthProvider; scopes: readonly string[] };

/** Decrypted credentials, in memory during one call. Never put them into logs, errors or workflow payloads. */
export type ConnectorAccess = OAuthConnectorAccess | S3ConnectorAccess;

export type OAuthConnectorAccess = {
  kind: 'oauth';
  accessToken: string;
  siteId: string | null;
};

export type S3ConnectorAccess = {
  kind: 'keys';
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
  bucket: string;
  prefix: string;
  region: string;
  endpoint: string | null;
  forcePathStyle: boolean;
};

/** All OAuth grants of one account at a provider have the same `accountId`. */
export type RemoteAccount = { accountId: string; accountName: string };

export type RemoteFile = {
  /** The provider's id of the file; survives renames and moves if the provider supports that. */
  fileId: string;
  name: string;
  /** Path relative to the root of the connection, without leading or trailing slash. */
  path: string;
  mimeType: string;
  sizeBytes: number | null;
  isFolder: boolean;
  /** Opaque text that changes whenever the content of the file changes. */
  revision: string;
};

export type RemoteFilePage = { files: RemoteFile[]; nextPage: string | null };

/**
 * A change at the provider. `present`: the current state of a file or folder; the children of a renamed or moved folder
 * may not be listed. `gone`: deleted, or moved out of the synced folder. `gone-path`: everything at or below this path
 * (case-insensitive) was deleted or moved; a renamed file also appears as `present` with its new path.
 */
export type RemoteChange =
  | { kind: 'present'; file: RemoteFile }
  | { kind: 'gone'; fileId: string }
  | { kind: 'gone-path'; path: string };

/** A folder at the provider, by `fileId` if present, otherwise by its path (`''`: the connection's root). */
export type RemoteFolder = { fileId?: string; path: string };

/**
 * Finds a file by `fileId`; without it, by `path`; without both, by `name` within `folder`. One of these three must be
 * set.
 */
export type RemoteFileQuery = { fileId?: string; path?: string; name?: string; folder?: string };

type RemoteContent = {
  content: Readable;
  mediaType: string;
  /**
   * For a file in the provider's own format (such as a Google Doc), the name has the extension of the export format.
   */
  fileName: string;
  /** Revision of the downloaded content, which may be newer than the revision in the listing. */
  revision: string;
};

/**
 * A file provider. Each call throws
 * - `needs_reauth`: the provider rejects the credentials (401, or refused keys);
 * - `provider_throttled` with `retryAfterSeconds`: 429, 503, or a 403 for too many requests;
 * - `provider_unavailable`: no response, or another 5xx;
 * - `remote_file_not_found`: the file does not exist, or the account cannot see it;
 * - `provider_rejected`: any other refusal.
 * Error messages contain neither credentials nor request data.
 */
export type Connector = {
  readonly provider: ConnectorProvider;
  /** Checks credentials by a cheap call that needs the same permissions as all other calls. */
  check(access: ConnectorAccess): Promise<RemoteAccount>;
  list(access: ConnectorAccess, folder: RemoteFolder, page: string | null): Promise<RemoteFilePage>;
  find(access: ConnectorAccess, query: RemoteFileQuery): Promise<RemoteFile>;
  /**
   * Downloads a file. The caller must read `content` to its end or destroy it. The call or the stream throws
   * `payload_too_large` above `limitBytes`. Throws `unsupported_format` for files that cannot be downloaded.
   */
  download(
    access: ConnectorAccess,
    file: RemoteFile,
    options: { limitBytes: number; signal: AbortSignal },
  ): Promise<RemoteContent>;
  /** Change feed of the provider; null if the provider has no such feed, so that each sync lists all files. */
  changes: null | {
    begin(access: ConnectorAccess, folder: RemoteFolder): Promise<string>;
    /**
     * Lists changes since `cursor`, oldest first. Throws `cursor_expired` if the provider does not know the cursor.
     */
    since(
      access: ConnectorAccess,
      cursor: string,
    ): Promise<{ changes: RemoteChange[]; cursor: string; hasMore: boolean }>;
  };
  /** Revokes the grant; null if the provider revokes grants by standard OAuth revocation or cannot revoke them. */
  revoke: null | ((access: ConnectorAccess) => Promise<void>);
};

export type ConnectorRegistry = {
  connectors: Readonly<Record<ConnectorProvider, Connector>>;
  consents: Readonly<Record<OAuthConnectorProvider, ConnectorOAuth | null>>;
};

export type ConnectorCallContext = { orgId: string; connectionId: string; requestId: string };

export type ConnectorCredentials = {
  /**
   * Runs `call` with valid credentials of the connection. Refreshes an access token that expires soon; when the
   * provider rejects the credentials, refreshes them and runs `call` once more. Throws `connection_not_found`,
   * `needs_reauth` (also recorded in the connection's `status`), `provider_not_configured`, `credentials_unreadable`,
   * and errors of `call`.
   */
  use<Result>(
    of: ConnectorCallContext,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
  ): Promise<Result>;
};

import type { Readable } from 'node:stream';
import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { OAuthProvider } from './identity.ts';

export type ConnectorOAuth = { settings: OAuthProvider; scopes: readonly string[] };

/** Decrypted credentials of a connection, held for one call. Never put them into logs, errors or workflow payloads. */
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
  /** An S3 prefix is empty or ends with a slash. */
  prefix: string;
  region: string;
  endpoint: string | null;
  forcePathStyle: boolean;
};

/** Grants of one account at a provider share its `accountId`. */
export type RemoteAccount = { accountId: string; accountName: string };

export type RemoteFile = {
  /** The id of a file survives renames and moves if the provider supports that. */
  fileId: string;
  name: string;
  /** Paths are relative to the connection's root, without leading or trailing slash. */
  path: string;
  mimeType: string;
  sizeBytes: number | null;
  isFolder: boolean;
  /** A revision is an opaque text that changes whenever the content changes. */
  revision: string;
};

export type RemoteFilePage = { files: RemoteFile[]; nextPage: string | null };

/**
 * `present`: current state of a file or folder; the children of a renamed or moved folder may not be listed.
 * `gone`: deleted or moved out of the folder. `gone-path`: everything at or below this path (case-insensitive) was
 * deleted or moved; a renamed file also appears as `present` with its new path.
 */
export type RemoteChange =
  | { kind: 'present'; file: RemoteFile }
  | { kind: 'gone'; fileId: string }
  | { kind: 'gone-path'; path: string };

/** A remote folder is identified by `fileId` if present, otherwise by its path (`''` is the root of the connection). */
export type RemoteFolder = { fileId?: string; path: string };

/** A file is found by id, else by path, else by name within `folder`. At least one of the first three is set. */
export type RemoteFileQuery = { fileId?: string; path?: string; name?: string; folder?: string };

type RemoteContent = {
  content: Readable;
  mediaType: string;
  /** A file in the provider's own format has the extension of its export format. */
  fileName: string;
  /** The downloaded revision may be newer than the listed one. */
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
  /** A connection is checked by a cheap call that needs the permissions of all other calls. */
  check(access: ConnectorAccess): Promise<RemoteAccount>;
  /** Lists the immediate children of a folder; `page` is the previous `nextPage`. */
  list(access: ConnectorAccess, folder: RemoteFolder, page: string | null): Promise<RemoteFilePage>;
  find(access: ConnectorAccess, query: RemoteFileQuery): Promise<RemoteFile>;
  /**
   * The caller must read `content` to its end or destroy it. The call or the stream throws `payload_too_large` above
   * `limitBytes`. Throws `unsupported_format` for files that cannot be downloaded.
   */
  download(
    access: ConnectorAccess,
    file: RemoteFile,
    options: { limitBytes: number; signal: AbortSignal },
  ): Promise<RemoteContent>;
  /** A provider without a change feed has `changes: null`; each of its syncs lists all files. */
  changes: null | {
    begin(access: ConnectorAccess, folder: RemoteFolder): Promise<string>;
    /** Changes come oldest first. Throws `cursor_expired` if the provider no longer knows the cursor. */
    since(
      access: ConnectorAccess,
      cursor: string,
    ): Promise<{ changes: RemoteChange[]; cursor: string; hasMore: boolean }>;
  };
  /** `revoke` is null if the provider's grants are revoked by OAuth revocation or cannot be revoked. */
  revoke: null | ((access: ConnectorAccess) => Promise<void>);
};

export type ConnectorRegistry = {
  connectors: Readonly<Record<ConnectorProvider, Connector>>;
  consents: Readonly<Record<OAuthConnectorProvider, ConnectorOAuth | null>>;
};

export type ConnectionCallContext = { orgId: string; connectionId: string; requestId: string };

export type ConnectorCredentials = {
  /**
   * Calls `call` with valid credentials of the connection. Refreshes a token that expires soon; when the provider
   * rejects the credentials, refreshes them and calls once more. Throws `connection_not_found`, `needs_reauth` (also
   * recorded in the connection's `status`), `provider_not_configured`, `credentials_unreadable`, and errors of `call`.
   */
  use<Result>(
    of: ConnectionCallContext,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
  ): Promise<Result>;
};

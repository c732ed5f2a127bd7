import type { Readable } from 'node:stream';
import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { OAuthProvider } from './identity.ts';

/** OAuth settings of a file provider. */
export type ConnectorOAuth = { settings: OAuthProvider; scopes: readonly string[] };

/** Decrypted credentials of a connection, held for one call. Never put them into logs, errors or workflow payloads. */
export type ConnectorAccess = OAuthAccess | KeyAccess;

export type OAuthAccess = {
  kind: 'oauth';
  accessToken: string;
  /** The SharePoint site; null for other providers. */
  siteId: string | null;
};

export type KeyAccess = {
  kind: 'keys';
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
  bucket: string;
  /** Prefix of all keys of the connection: empty, or ending with a slash. */
  prefix: string;
  region: string;
  /** Null for the provider's default endpoint in this region. */
  endpoint: string | null;
  forcePathStyle: boolean;
};

/** The account at the provider. All grants of one account have the same `accountId`. */
export type RemoteAccount = { accountId: string; accountName: string };

export type RemoteFile = {
  /** The provider's id. Stays the same when the file is renamed or moved, where the provider supports that. */
  fileId: string;
  name: string;
  /** Path relative to the connection's root, without leading or trailing slash; empty for the root itself. */
  path: string;
  /** `application/x-directory` for folders. */
  mimeType: string;
  /** Null where the provider does not say, as for its own document formats. */
  sizeBytes: number | null;
  isFolder: boolean;
  /** Opaque; changes whenever the content changes. */
  revision: string;
};

/** `nextPage` is an opaque token; null on the last page. */
export type RemotePage = { files: RemoteFile[]; nextPage: string | null };

/**
 * `present`: current state of a file or folder; the children of a renamed or moved folder may not be listed.
 * `gone`: deleted or moved out of the folder. `gone-path`: everything at or below this path (case-insensitive) was
 * deleted or moved; a renamed file also appears as `present` with its new path.
 */
export type RemoteChange =
  | { kind: 'present'; file: RemoteFile }
  | { kind: 'gone'; fileId: string }
  | { kind: 'gone-path'; path: string };

/** Identified by `fileId` if present, otherwise by its path relative to the connection's root (`''` is the root). */
export type RemoteFolder = { fileId?: string; path: string };

/** Identifies a file by id, else by path, else by name within `folder` (a path). At least one of the first three is set. */
export type RemoteFileQuery = { fileId?: string; path?: string; name?: string; folder?: string };

export type RemoteContent = {
  content: Readable;
  mediaType: string;
  /** With the extension of the export format if the provider exported one of its own formats. */
  fileName: string;
  /** Revision of the bytes that are sent: the file may have changed since it was listed. */
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
  /** Makes a real, cheap call that needs the permissions of all other calls. */
  check(access: ConnectorAccess): Promise<RemoteAccount>;
  /** Lists the immediate children. `page` is the `nextPage` of the previous page; null for the first. */
  list(access: ConnectorAccess, folder: RemoteFolder, page: string | null): Promise<RemotePage>;
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
  /** Null where the provider has no change feed; then every sync lists all files. */
  changes: null | {
    /** @returns a cursor that all later changes in the folder and its subfolders come after */
    begin(access: ConnectorAccess, folder: RemoteFolder): Promise<string>;
    /** Returns changes oldest first. Throws `cursor_expired` if the provider no longer knows the cursor. */
    since(
      access: ConnectorAccess,
      cursor: string,
    ): Promise<{ changes: RemoteChange[]; cursor: string; hasMore: boolean }>;
  };
  /** Revokes the grant by the provider's own call; null where OAuth's revocation, or none, applies. */
  revoke: null | ((access: ConnectorAccess) => Promise<void>);
};

/** The connectors of this deployment and their OAuth settings. */
export type ConnectorAccesses = {
  connectors: Readonly<Record<ConnectorProvider, Connector>>;
  /** Null where the deployment has no OAuth client at the provider. */
  consents: Readonly<Record<OAuthConnectorProvider, ConnectorOAuth | null>>;
};

export type ConnectionUse = { orgId: string; connectionId: string; requestId: string };

export type ConnectorCredentials = {
  /**
   * Calls `call` with valid credentials of the connection. Refreshes a token that expires soon; when the provider rejects
   * the credentials, refreshes them and calls once more. Throws `connection_not_found`, `needs_reauth` (also recorded in
   * the connection's `status`), `provider_not_configured`, `credentials_unreadable`, and errors of `call`.
   */
  use<Result>(
    of: ConnectionUse,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
  ): Promise<Result>;
};

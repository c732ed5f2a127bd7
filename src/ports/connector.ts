import type { Readable } from 'node:stream';
import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/connector-providers.ts';
import type { OAuthProvider } from './oauth-client.ts';

/** How consents are asked for at a provider of files. */
export type ConnectorOAuth = { settings: OAuthProvider; scopes: readonly string[] };

/** What opens a connection, for as long as one call takes. Never logged, never in an error or a payload. */
export type ConnectorAccess = OAuthAccess | KeyAccess;

export type OAuthAccess = {
  kind: 'oauth';
  accessToken: string;
  /** Of the provider that keeps files by sites; null elsewhere. */
  siteId: string | null;
};

export type KeyAccess = {
  kind: 'keys';
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
  bucket: string;
  /** Before all keys of the connection: empty, or with a slash at its end. */
  prefix: string;
  region: string;
  /** Null for the provider's own in this region. */
  endpoint: string | null;
  forcePathStyle: boolean;
};

/** Whose files they are at the provider: the same account has the same id in each of its grants. */
export type RemoteAccount = { accountId: string; accountName: string };

export type RemoteFile = {
  /** The provider's; it outlives renaming and moving where the provider can tell. */
  fileId: string;
  name: string;
  /** Names from the connection's root, with slashes between them and none at the ends; the root itself is empty. */
  path: string;
  /** Of folders `application/x-directory`. */
  mimeType: string;
  /** Null where the provider does not say, as of its own formats. */
  sizeBytes: number | null;
  isFolder: boolean;
  /** Opaque; another whenever the content is. */
  revision: string;
};

/** `nextPage` is opaque, and null on the last page. */
export type RemotePage = { files: RemoteFile[]; nextPage: string | null };

/**
 * `present`: a file or folder as it is now; what is in a folder that was renamed or moved may not be told. `gone`: deleted,
 * or moved out. `gone-path`: the same of whatever was at this path or below, without regard to case; by one that was
 * renamed since, its new place is told as `present`.
 */
export type RemoteChange =
  | { kind: 'present'; file: RemoteFile }
  | { kind: 'gone'; fileId: string }
  | { kind: 'gone-path'; path: string };

/** By its id where there is one, and else by its path from the connection's root; `''` is the root. */
export type RemoteFolder = { fileId?: string; path: string };

/** By its id, else by its path, else by its name within `folder`, a path; at least one of the first three is there. */
export type RemoteFileWish = { fileId?: string; path?: string; name?: string; folder?: string };

export type RemoteContent = {
  content: Readable;
  mediaType: string;
  /** With the ending of what a provider's own format was exported to. */
  fileName: string;
  /** Of what is really sent: the file may have changed since it was listed. */
  revision: string;
};

/**
 * Files that a provider keeps for somebody. Each call throws
 * - `needs_reauth`: the provider does not accept the access (401; refused keys);
 * - `provider_throttled`, with `retryAfterSeconds`: 429, a 403 for too many requests, 503;
 * - `provider_unavailable`: no answer, or another 5xx;
 * - `remote_file_not_found`: what is named is not there, or not for this account;
 * - `provider_rejected`: it refuses something else.
 * Errors quote neither the access nor what the provider was asked.
 */
export type Connector = {
  readonly provider: ConnectorProvider;
  /** A real, cheap call that needs the rights of all others. */
  check(access: ConnectorAccess): Promise<RemoteAccount>;
  /** The immediate children, in pages. `page` is the `nextPage` of the page before; null for the first. */
  list(access: ConnectorAccess, folder: RemoteFolder, page: string | null): Promise<RemotePage>;
  find(access: ConnectorAccess, wanted: RemoteFileWish): Promise<RemoteFile>;
  /**
   * The caller reads `content` or destroys it. Over `limitBytes` this or the reading throws `payload_too_large`; throws
   * `unsupported_format` for what cannot be downloaded at all.
   */
  download(
    access: ConnectorAccess,
    file: RemoteFile,
    options: { limitBytes: number; signal: AbortSignal },
  ): Promise<RemoteContent>;
  /** Null where the provider cannot tell what has changed: then all is listed each time. */
  changes: null | {
    /** A cursor of now: what changes in the folder and below from here on comes after it. */
    begin(access: ConnectorAccess, folder: RemoteFolder): Promise<string>;
    /** Oldest first; throws `cursor_expired` for one that the provider has forgotten. */
    since(
      access: ConnectorAccess,
      cursor: string,
    ): Promise<{ changes: RemoteChange[]; cursor: string; hasMore: boolean }>;
  };
  /** Ends the grant, where the provider has a call of its own for that; null where OAuth's or none does. */
  revoke: null | ((access: ConnectorAccess) => Promise<void>);
};

/** How this deployment gets to the providers. */
export type ConnectorAccesses = {
  connectors: Readonly<Record<ConnectorProvider, Connector>>;
  /** Null where it has no client. */
  consents: Readonly<Record<OAuthConnectorProvider, ConnectorOAuth | null>>;
};

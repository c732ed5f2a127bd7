import type { Connector, ConnectorAccess } from './connector.ts';

/** A connection, and in whose name it is used. */
export type ConnectionUse = { orgId: string; connectionId: string; requestId: string };

export type ConnectorCredentials = {
  /**
   * Opens a connection for one call: with a token that is not about to end, and once more with another one where the
   * provider does not take it. Throws `connection_not_found`, `needs_reauth` (from then on in the connection's `status`,
   * too), `provider_not_configured`, `credentials_unreadable`, and what the call throws.
   */
  use<Result>(
    of: ConnectionUse,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
  ): Promise<Result>;
};

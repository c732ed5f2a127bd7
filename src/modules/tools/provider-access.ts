import type { OAuthProvider } from '#src/ports/identity.ts';

/** How this deployment connects organizations to a provider. */
export type ProviderAccess =
  /** `check` throws `connection_check_failed` for a key that the provider does not take, `provider_unavailable`. */
  | { kind: 'api_key'; check(apiKey: string): Promise<void> }
  /** Null: it has no client there. */
  | { kind: 'oauth'; settings: OAuthProvider | null };

/** By the ids of the providers. */
export type ProviderAccesses = Readonly<Record<string, ProviderAccess>>;

export function isConfigured(access: ProviderAccess | undefined): boolean {
  return access !== undefined && (access.kind === 'api_key' || access.settings !== null);
}

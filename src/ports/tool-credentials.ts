import type { RequestActor } from '#src/domain/visibility.ts';

/** Lets tools work with credentials that they never keep. */
export type ToolCredentials = {
  /**
   * Calls with the API key or the access token of the organization's connection to the tool's provider, fresh enough to
   * be used at once. `call` throws `needs_reauth` when the provider does not accept it; then it is called once more with
   * a renewed one, where there is such a thing. Throws `not_connected`, `not_granted`, `needs_reauth`,
   * `provider_unavailable`, and what `call` throws.
   */
  use<Result>(
    of: Pick<RequestActor, 'orgId' | 'requestId'>,
    toolId: string,
    call: (credential: string) => Promise<Result>,
  ): Promise<Result>;
};

import type { RequestActor } from '#src/domain/access/visibility.ts';

export type ToolCallContext = {
  /** Tools act with the rights of the user who asked and never more. */
  actor: RequestActor;
  /** `[0-9a-f]{40}`, the same whenever this call of this round is repeated: an idempotency key. */
  callKey: string;
  /** Texts whose URLs `web.fetch` may fetch: persona, messages of the chat's creator, searches of this round. */
  trustedTexts: readonly string[];
  signal: AbortSignal;
};

/**
 * Runs a tool; the result is text for the model. Errors of the catalogue are reported to the model with code and
 * detail, any other error as `tool_failed` without its message. Results and errors must not contain credentials.
 */
export type ToolExecutor = (args: Readonly<Record<string, unknown>>, context: ToolCallContext) => Promise<string>;

export type ToolCredentials = {
  /**
   * Calls `call` with the API key or a valid access token of the organization's connection to the tool's provider. When
   * `call` throws `needs_reauth`, refreshes an access token and calls once more. Throws `not_connected`, `not_granted`,
   * `needs_reauth`, `provider_unavailable`, and errors of `call`.
   */
  use<Result>(
    of: Pick<RequestActor, 'orgId' | 'requestId'>,
    toolId: string,
    call: (credential: string) => Promise<Result>,
  ): Promise<Result>;
};

import type { RequestActor } from '#src/domain/access/visibility.ts';

export type ToolCallContext = {
  /** The user who asked. A tool has exactly the permissions of this user. */
  actor: RequestActor;
  /** Idempotency key of the call (40 hexadecimal digits): the same whenever this call of this round is repeated. */
  callKey: string;
  /** `web.fetch` may fetch URLs in these texts only: persona, messages of the chat's creator, search results. */
  trustedTexts: readonly string[];
  signal: AbortSignal;
};

/**
 * Runs a tool and returns text for the model. The model receives code and detail of an error of the catalogue; any
 * other error is reported as `tool_failed` without its message. Results and errors must not contain credentials.
 */
export type ToolExecutor = (args: Readonly<Record<string, unknown>>, context: ToolCallContext) => Promise<string>;

export type ToolCredentials = {
  /**
   * Runs `call` with the API key or a valid access token of the organization's connection to the tool's provider. When
   * `call` throws `needs_reauth`, refreshes an access token and runs `call` once more. Throws `not_connected`,
   * `not_granted`, `needs_reauth`, `provider_unavailable`, and errors of `call`.
   */
  use<Result>(
    of: Pick<RequestActor, 'orgId' | 'requestId'>,
    toolId: string,
    call: (credential: string) => Promise<Result>,
  ): Promise<Result>;
};

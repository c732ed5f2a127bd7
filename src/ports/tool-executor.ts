import type { RequestActor } from '#src/domain/visibility.ts';

/** The round that a tool is called in. */
export type ToolCallContext = {
  /** Whose rights a tool has: those of the one who asks, never more. */
  actor: RequestActor;
  /** `[0-9a-f]{40}`: the same for the same call of the same round, however often that is answered. */
  callKey: string;
  /** Text by people (persona, messages of the chat's creator) in which an address must stand before it is asked for. */
  trustedTexts: readonly string[];
  /** Aborted when the call's time is over, or nobody waits for the answer any more. */
  signal: AbortSignal;
};

/**
 * Runs one tool with arguments that fit its schema and gives what the model reads. What went wrong and the model may
 * know is an error of the catalogue: its code and detail are told to the model; any other error is `tool_failed`, with
 * nothing of its text. Credentials never stand in results or errors.
 */
export type ToolExecutor = (args: Readonly<Record<string, unknown>>, context: ToolCallContext) => Promise<string>;

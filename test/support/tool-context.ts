import { expect } from 'chai';
import { AppError } from '#src/errors.ts';
import type { ToolCallContext, ToolExecutor } from '#src/ports/tools.ts';
import { anActor } from './served-routes.ts';

export const toolContext: ToolCallContext = {
  actor: { ...anActor(), requestId: 'request' },
  callKey: 'a'.repeat(40),
  trustedTexts: [],
  signal: new AbortController().signal,
};

export async function refusal(execute: ToolExecutor, args: Record<string, unknown>): Promise<string> {
  const outcome = await execute(args, toolContext).catch((error: unknown) => error);
  if (!(outcome instanceof AppError)) throw new Error(`not refused: ${outcome}`);
  expect(outcome.code).equal('tool_arguments_invalid');
  return outcome.message;
}

import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { until } from './until.ts';

/** Waits for the end of a run, and asks again while the engine, which other tests keep busy, does not answer. */
export function untilClosed({ describe }: Pick<Orchestrator, 'describe'>, workflowId: string, timeoutMs?: number) {
  const closed = async () => {
    const state = await describe(workflowId).catch(() => 'open' as const);
    return state !== 'open' && state;
  };
  return until(`the run ${workflowId} is closed`, closed, timeoutMs);
}

import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { until } from './until.ts';

// The engine, which all tests that run side by side keep busy, may have no time for a call. What is not answered is
// asked again here, as the sweeper and clients do.

/** Waits for the end of a run. @returns how it ended */
export function untilClosed({ describe }: Pick<Orchestrator, 'describe'>, workflowId: string, timeoutMs?: number) {
  const closed = async () => {
    const state = await describe(workflowId).catch(() => 'open' as const);
    return state !== 'open' && state;
  };
  return until(`the run ${workflowId} is closed`, closed, timeoutMs);
}

/** Asks a run to end, as an operator does. */
export async function cancelRun({ cancel }: Pick<Orchestrator, 'cancel'>, workflowId: string): Promise<void> {
  const asked = () =>
    cancel(workflowId).then(
      () => true,
      () => false,
    );
  await until(`the run ${workflowId} is asked to end`, asked);
}

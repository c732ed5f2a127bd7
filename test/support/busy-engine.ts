import { AppError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { until } from './until.ts';

// The engine, which all tests that run side by side keep busy, may have no time for a call. What is not answered is
// asked again here, as the sweeper and clients do; what is refused fails.

/** Waits for the end of a run. @returns how it ended */
export function untilClosed({ describe }: Pick<Orchestrator, 'describe'>, workflowId: string, timeoutMs?: number) {
  const closed = async () => {
    const state = await describe(workflowId).catch(unlessRefused('open' as const));
    return state !== 'open' && state;
  };
  return until(`the run ${workflowId} is closed`, closed, timeoutMs);
}

/** Asks a run to end, as an operator does. */
export async function cancelRun({ cancel }: Pick<Orchestrator, 'cancel'>, workflowId: string): Promise<void> {
  const asked = () =>
    cancel(workflowId)
      .then(() => true)
      .catch(unlessRefused(false));
  await until(`the run ${workflowId} is asked to end`, asked);
}

/** For `catch`: what stands for an answer of an engine that gave none. */
function unlessRefused<T>(unanswered: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof AppError && error.code === 'service_unavailable') return unanswered;
    throw error;
  };
}

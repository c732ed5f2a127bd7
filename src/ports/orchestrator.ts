import type { WorkflowStart } from '#src/contracts/jobs.ts';

/** Starts durable work. The only thing that services know of the workflow engine. */
export type Orchestrator = {
  /**
   * Starts the workflow under this id, or leaves the one that runs under it alone. An alignment workflow is nudged by
   * signal-with-start. Throws when the engine is not reachable: the caller leaves the job undispatched.
   */
  start(input: {
    workflowId: string;
    start: WorkflowStart;
    attributes: { orgId: string; documentId?: string; agentId?: string; chatId?: string };
    requestId: string | null;
  }): Promise<void>;
  /** Asks a run to stop; fine when there is none. */
  cancel(workflowId: string): Promise<void>;
  /** How a run ended, or that it is open, or that the engine does not know it. */
  describe(workflowId: string): Promise<'open' | 'completed' | 'failed' | 'cancelled' | 'unknown'>;
  /** Where operators see the run; null when the deployment has no such page. */
  uiUrl(workflowId: string): string | null;
  /** True when a worker polls every task queue of ours. */
  hasPollers(): Promise<boolean>;
};

import type { WorkflowStart } from '#src/contracts/jobs.ts';
import type { TaskQueue } from '#src/contracts/task-queues.ts';

/** What came of moving a run: it was moved, it was open but not parked, or there is no open run. */
export type MoveResult = 'moved' | 'not_parked' | 'gone';

/**
 * How far a run is. `parked` waits for a person; `stuck` is open and cannot go on by its own code; `failed` says why,
 * with `run_terminated` for one that somebody ended by force. `toStop` names the start of a run that somebody has asked
 * to stop and that has not done so yet.
 */
export type RunReport = (
  | { state: 'open' | 'completed' | 'cancelled' | 'unknown' }
  | { state: 'parked' | 'stuck' | 'failed'; error: { code: string; message: string } }
) & { toStop?: string };

/** Starts durable work. The only thing that services know of the workflow engine. */
export type Orchestrator = {
  /**
   * Starts the workflow under this id, or leaves the one alone that this `startId` has started. One that another start
   * left open is stopped: it ends as its attempt did, or belongs to a database that was replaced by an older one. An
   * alignment workflow is nudged by signal-with-start. Throws when the engine is not reachable: the caller leaves the job undispatched.
   * @returns `closing` when another run has not closed yet: to be started again in a moment
   */
  start(input: {
    workflowId: string;
    start: WorkflowStart;
    startId: string;
    attempt: number;
    attributes: { orgId: string; documentId?: string; connectionId?: string; agentId?: string; chatId?: string };
    requestId: string | null;
  }): Promise<'started' | 'closing'>;
  /** Asks a run to stop; fine when there is none. */
  cancel(workflowId: string): Promise<void>;
  /** Lets a parked run go on with the step that failed. Throws when the engine, or a worker, is not reachable. */
  retryParked(workflowId: string): Promise<MoveResult>;
  /** Ends a parked run as failed with the code `skipped`. Throws as `retryParked` does. */
  skipParked(workflowId: string): Promise<MoveResult>;
  /** Lets a run that can be paused begin with nothing new, or go on. Throws as `retryParked` does. */
  setPaused(workflowId: string, isPaused: boolean): Promise<'done' | 'unchanged' | 'gone'>;
  /** How a run ended, or that it is open, or that the engine does not know it. */
  describe(workflowId: string): Promise<'open' | 'completed' | 'failed' | 'cancelled' | 'unknown'>;
  /** The same with what stands in its way. */
  inspect(workflowId: string): Promise<RunReport>;
  /** Where operators see the run; null when the deployment has no such page. */
  uiUrl(workflowId: string): string | null;
  /** How many tasks of each queue no worker has taken yet, as the engine estimates it. */
  backlog(): Promise<{ queue: TaskQueue; type: 'workflow' | 'activity'; count: number }[]>;
  /** True when a worker polls every task queue of ours. */
  hasPollers(): Promise<boolean>;
};

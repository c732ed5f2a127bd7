import type { WorkflowStart } from '#src/contracts/jobs.ts';
import type { TaskQueue } from '#src/contracts/workflow-runs.ts';

/** `not_parked`: the run is open but not parked. `gone`: there is no open run. */
export type ParkedRunUpdateResult = 'moved' | 'not_parked' | 'gone';

/**
 * State of a run. `parked`: waits for an operator. `stuck`: open, but its workflow task fails. `failed`: with the
 * reason, which is `run_terminated` if the run was terminated. `toStop`: the start id of a run that was asked to cancel
 * and has not ended yet.
 */
export type WorkflowRunState = (
  | { state: 'open' | 'completed' | 'cancelled' | 'unknown' }
  | { state: 'parked' | 'stuck' | 'failed'; error: { code: string; message: string } }
) & { toStop?: string };

export type Orchestrator = {
  /**
   * Starts the workflow under this id. Does nothing if this `startId` already started it. Stops an open run of another
   * start, which is a leftover of an earlier attempt or of a database that was replaced by an older one. Alignment
   * workflows are started or nudged by signal-with-start. Throws when Temporal is unreachable: the caller leaves the
   * job undispatched.
   * @returns `closing` while another run has not ended yet: try again soon
   */
  start(input: {
    workflowId: string;
    start: WorkflowStart;
    startId: string;
    attempt: number;
    attributes: { orgId: string; documentId?: string; connectionId?: string; agentId?: string; chatId?: string };
    requestId: string | null;
  }): Promise<'started' | 'closing'>;
  /** Cancels a run; a run that is not open is no error. */
  cancel(workflowId: string): Promise<void>;
  /** Lets a parked run retry the step that failed. Throws when Temporal or a worker is unreachable. */
  retryParked(workflowId: string): Promise<ParkedRunUpdateResult>;
  /** Ends a parked run as failed with the code `skipped`. Throws as `retryParked` does. */
  skipParked(workflowId: string): Promise<ParkedRunUpdateResult>;
  /** Pauses a run between two steps, or resumes it. Throws as `retryParked` does. */
  setPaused(workflowId: string, isPaused: boolean): Promise<'done' | 'unchanged' | 'gone'>;
  describe(workflowId: string): Promise<'open' | 'completed' | 'failed' | 'cancelled' | 'unknown'>;
  /** Describes a run like `describe`, with the reason why it makes no progress. */
  inspect(workflowId: string): Promise<WorkflowRunState>;
  /** Returns the run's URL in the Temporal UI; null if the deployment has no Temporal UI. */
  uiUrl(workflowId: string): string | null;
  /** Temporal only estimates the number of waiting tasks. */
  backlog(): Promise<{ queue: TaskQueue; type: 'workflow' | 'activity'; count: number }[]>;
  hasPollers(): Promise<boolean>;
};

export type SyncScheduleSettings = { isOn: boolean } & ({ everyMinutes: number } | { cron: string });

/** Temporal Schedules of connector re-syncs. Throws when Temporal is unreachable. */
export type SyncSchedules = {
  /** Creates or updates a schedule; one that an operator has paused stays paused. */
  set(of: { orgId: string; connectionId: string }, times: SyncScheduleSettings): Promise<void>;
  remove(connectionId: string): Promise<void>;
};

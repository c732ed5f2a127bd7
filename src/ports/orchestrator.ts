import type { WorkflowToStart } from '#src/contracts/jobs.ts';
import type { TaskQueue } from '#src/contracts/workflow-runs.ts';

/**
 * Result of an update of a parked run. `moved`: the run is no longer parked. `not_parked`: the run is open but was not
 * parked. `gone`: no run is open.
 */
export type ParkedRunUpdateResult = 'moved' | 'not_parked' | 'gone';

/**
 * State of a workflow run. `parked`: waits for an operator. `stuck`: open, but its workflow task fails repeatedly.
 * `failed`: `error` is the reason, with the code `run_terminated` if the run was terminated. `toStop`: the start id of
 * a run whose cancellation was requested but which has not ended yet.
 */
export type WorkflowRunState = (
  | { state: 'open' | 'completed' | 'cancelled' | 'unknown' }
  | { state: 'parked' | 'stuck' | 'failed'; error: { code: string; message: string } }
) & { toStop?: string };

export type Orchestrator = {
  /**
   * Starts a workflow with this id; has no effect if the same `startId` has already started it. If a run with another
   * `startId` is open (left by an earlier attempt, or by a database that was replaced by an older backup), stops that
   * run. Alignment workflows are started or nudged by signal-with-start. Throws when Temporal is unreachable: the
   * caller then leaves the job undispatched.
   * @returns `closing` while another run has not ended yet: call again soon
   */
  start(input: {
    workflowId: string;
    start: WorkflowToStart;
    startId: string;
    attempt: number;
    attributes: { orgId: string; documentId?: string; connectionId?: string; agentId?: string; chatId?: string };
    requestId: string | null;
  }): Promise<'started' | 'closing'>;
  cancel(workflowId: string): Promise<void>;
  /** Makes a parked run retry the step that failed. Throws when Temporal or a worker is unreachable. */
  retryParked(workflowId: string): Promise<ParkedRunUpdateResult>;
  skipParked(workflowId: string): Promise<ParkedRunUpdateResult>;
  /** Pauses a run after its current step, or resumes it. Throws when Temporal or a worker is unreachable. */
  setPaused(workflowId: string, isPaused: boolean): Promise<'done' | 'unchanged' | 'gone'>;
  describe(workflowId: string): Promise<'open' | 'completed' | 'failed' | 'cancelled' | 'unknown'>;
  /** Returns the state of a run like `describe`, and if the run makes no progress, the reason. */
  inspect(workflowId: string): Promise<WorkflowRunState>;
  uiUrl(workflowId: string): string | null;
  backlog(): Promise<{ queue: TaskQueue; type: 'workflow' | 'activity'; count: number }[]>;
  hasPollers(): Promise<boolean>;
};

export type SyncScheduleSettings = { isOn: boolean } & ({ everyMinutes: number } | { cron: string });

/** Manages the Temporal Schedules that sync connections regularly. Throws when Temporal is unreachable. */
export type SyncSchedules = {
  /** Creates or updates the schedule of a connection. A schedule that an operator has paused stays paused. */
  set(of: { orgId: string; connectionId: string }, times: SyncScheduleSettings): Promise<void>;
  remove(connectionId: string): Promise<void>;
};

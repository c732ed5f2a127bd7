import {
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionDescription,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, defineSearchAttributeKey } from '@temporalio/common';
import proto from '@temporalio/proto';
import { scoreNewRoundsSignalName } from '#src/contracts/alignment.ts';
import { pauseUpdateName, resumeUpdateName } from '#src/contracts/ingestion.ts';
import { type JobKind, unstoppableJobKinds, type WorkflowToStart } from '#src/contracts/jobs.ts';
import {
  firstStages,
  retryUpdateName,
  skipUpdateName,
  type TaskQueue,
  taskQueues,
} from '#src/contracts/workflow-runs.ts';
import { appError, isErrorCode } from '#src/errors.ts';
import type { Orchestrator, ParkedRunUpdateResult, WorkflowRunState } from '#src/ports/orchestrator.ts';
import { searchAttributes, type TemporalConnection } from './connection.ts';

/** Workers poll Temporal at least once a minute (long polls), so a poller that was not seen for longer is gone. */
const POLLER_SEEN_WITHIN_MS = 70_000;

const VERSIONED = proto.temporal.api.enums.v1.WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED;

/** Timeout of workflow updates; longer than that of other RPCs, because a worker has to handle the update. */
const UPDATE_TIMEOUT_MS = 10_000;

type Start = Parameters<Orchestrator['start']>[0];

const jobKinds: Record<WorkflowToStart['workflow'], JobKind> = {
  ingestDocument: 'ingest',
  scoreAlignment: 'alignment',
  deleteDocument: 'delete',
  reembedOrganization: 'reembed',
  proposeAnchorWords: 'anchors',
  previewDocument: 'preview',
  eraseContent: 'erase',
  evaluateVersion: 'evaluate',
  compareVersions: 'compare',
  importFromConnector: 'import',
  syncConnection: 'sync',
  exportOrganization: 'export',
};

/**
 * Number of attempts of a workflow task after which the run counts as stuck. With Temporal's backoff, a brief problem
 * ends before this number is reached.
 */
const STUCK_AFTER_ATTEMPTS = 5;

const { TASK_QUEUE_TYPE_WORKFLOW, TASK_QUEUE_TYPE_ACTIVITY } = proto.temporal.api.enums.v1.TaskQueueType;
const taskQueueTypes = { workflow: TASK_QUEUE_TYPE_WORKFLOW, activity: TASK_QUEUE_TYPE_ACTIVITY };

const typeOfTasks = (queue: TaskQueue): keyof typeof taskQueueTypes =>
  queue === taskQueues.workflows ? 'workflow' : 'activity';

/** gRPC codes of an outage: CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, UNAVAILABLE. */
const outages = new Set([1, 4, 8, 10, 14]);

/** Temporal's priorities of workflows (1 is highest, 5 lowest); activities inherit the priority of their workflow. */
const PRIORITIES = { interactive: 2, bulk: 4 };

/** Calls throw `service_unavailable` while Temporal is down, and `internal_error` if Temporal rejects the request. */
export function createOrchestrator(connection: TemporalConnection, options: { uiUrl: string | null }): Orchestrator {
  const { client, namespace } = connection;
  const { workflow } = client;
  const call = <T>(work: () => Promise<T>, minTimeoutMs?: number): Promise<T> =>
    connection.call(work, minTimeoutMs).catch(throwTemporalError);

  async function hasPoller(queue: TaskQueue): Promise<boolean> {
    const asked = { namespace, taskQueue: { name: queue }, taskQueueType: taskQueueTypes[typeOfTasks(queue)] };
    const { pollers, versioningInfo } = await call(() => client.workflowService.describeTaskQueue(asked));
    const oldest = (Date.now() - POLLER_SEEN_WITHIN_MS) / 1000;
    const current = versioningInfo?.currentDeploymentVersion;
    return (pollers ?? []).some(({ lastAccessTime, deploymentOptions }) => {
      // Temporal sends new runs to workers of the current version, or to unversioned workers if there is no current
      // version.
      const version = deploymentOptions?.workerVersioningMode === VERSIONED ? deploymentOptions : undefined;
      const getsNewRuns = version?.buildId === current?.buildId && version?.deploymentName === current?.deploymentName;
      return getsNewRuns && Number(lastAccessTime?.seconds ?? 0) >= oldest;
    });
  }

  async function backlogOf(queue: TaskQueue) {
    const type = typeOfTasks(queue);
    const asked = { namespace, taskQueue: { name: queue }, taskQueueType: taskQueueTypes[type], reportStats: true };
    const { stats } = await call(() => client.workflowService.describeTaskQueue(asked));
    return { queue, type, count: Number(stats?.approximateBacklogCount ?? 0) };
  }

  /**
   * Called when a run with this workflow id exists already. Returns `started` if it is the requested run. Otherwise it
   * is an older run of the job: stops that run and returns `closing`.
   */
  async function stopOlderRun({ workflowId, start, startId, attempt }: Start): Promise<'started' | 'closing'> {
    const run = workflow.getHandle(workflowId);
    const { runId, status, memo } = await call(() => run.describe());
    // Runs that were started by older releases have no `startId` but an attempt number.
    if (memo?.startId === undefined ? memo?.attempt === attempt : memo.startId === startId) return 'started';
    if (status.name !== 'RUNNING') return 'closing';
    const other = workflow.getHandle(workflowId, runId);
    const reason = 'The job was started again.';
    const isUnstoppable = unstoppableJobKinds.includes(jobKinds[start.workflow]);
    const stop = () => (isUnstoppable ? other.terminate(reason) : other.cancel());
    await call(() => stop().catch(unless(WorkflowNotFoundError)));
    return 'closing';
  }

  async function move(workflowId: string, update: string, minTimeoutMs?: number): Promise<ParkedRunUpdateResult> {
    const run = workflow.getHandle(workflowId);
    return call(async () => {
      try {
        await run.executeUpdate(update);
        return 'moved';
      } catch (error) {
        if (error instanceof WorkflowUpdateFailedError) return 'not_parked';
        if (error instanceof WorkflowNotFoundError) return 'gone';
        throw error;
      }
    }, minTimeoutMs);
  }

  return {
    async start(job) {
      const { workflowId, start, startId, attempt, attributes, requestId } = job;
      const options = {
        workflowId,
        taskQueue: taskQueues.workflows,
        args: [start.input],
        // Allows starting a finished workflow again: runs skip finished work, and after Postgres was restored from a
        // backup, work must be repeated.
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        staticSummary: start.summary,
        memo: { requestId, attempt, startId, summary: start.summary },
        priority: {
          priorityKey: start.bulk ? PRIORITIES.bulk : PRIORITIES.interactive,
          // Temporal takes turns between organizations, so that a large backlog of one does not delay others.
          fairnessKey: attributes.orgId,
        },
        typedSearchAttributes: searchAttributes({
          OrgId: attributes.orgId,
          DocumentId: attributes.documentId,
          ConnectionId: attributes.connectionId,
          AgentId: attributes.agentId,
          ChatId: attributes.chatId,
          JobKind: jobKinds[start.workflow],
          Stage: firstStages[start.workflow],
        }),
      } as const;

      try {
        if (start.workflow === 'scoreAlignment') {
          const nudge = { workflowIdConflictPolicy: 'USE_EXISTING', signal: scoreNewRoundsSignalName } as const;
          await call(() => workflow.signalWithStart(start.workflow, { ...options, ...nudge }));
        } else {
          await call(() => workflow.start(start.workflow, options));
        }
        return 'started';
      } catch (error) {
        if (error instanceof WorkflowExecutionAlreadyStartedError) return stopOlderRun(job);
        throw error;
      }
    },

    async cancel(workflowId) {
      await call(() => workflow.getHandle(workflowId).cancel().catch(unless(WorkflowNotFoundError)));
    },

    retryParked: (workflowId) => move(workflowId, retryUpdateName),
    skipParked: (workflowId) => move(workflowId, skipUpdateName, UPDATE_TIMEOUT_MS),

    async setPaused(workflowId, isPaused) {
      const moved = await move(workflowId, isPaused ? pauseUpdateName : resumeUpdateName, UPDATE_TIMEOUT_MS);
      if (moved === 'gone') return 'gone';
      return moved === 'moved' ? 'done' : 'unchanged';
    },

    async describe(workflowId) {
      const run = await call(() => workflow.getHandle(workflowId).describe().catch(unless(WorkflowNotFoundError)));
      return stateOf(run);
    },

    async inspect(workflowId) {
      const handle = workflow.getHandle(workflowId);
      const run = await call(() => handle.describe().catch(unless(WorkflowNotFoundError)));
      const state = stateOf(run);
      if (state === 'failed') return { state, error: await call(() => failureOf(handle)) };
      if (run === undefined || state !== 'open') return { state };
      return { ...progressOf(run), ...requestedStopOf(run) };
    },

    uiUrl(workflowId) {
      if (options.uiUrl === null) return null;
      return `${options.uiUrl.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
    },

    backlog: () => Promise.all(Object.values(taskQueues).map(backlogOf)),

    async hasPollers() {
      const answers = await Promise.all(Object.values(taskQueues).map(hasPoller));
      return answers.every(Boolean);
    },
  };
}

function throwTemporalError(error: unknown): never {
  const cause = error instanceof ServiceError ? error.cause : error;
  const isFromServer = error instanceof ServiceError || isGrpcServiceError(cause);
  if (!isFromServer && !(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError)) throw error;
  if (isGrpcServiceError(cause) && !outages.has(cause.code)) {
    throw appError('internal_error', {
      detail: 'Temporal rejected the request; the log of this process has the reason.',
      cause: error,
    });
  }
  throw appError('service_unavailable', {
    detail: 'Temporal is unavailable or did not respond in time.',
    cause: error,
  });
}

function stateOf(run: WorkflowExecutionDescription | undefined): Awaited<ReturnType<Orchestrator['describe']>> {
  switch (run?.status.name) {
    case undefined:
      return 'unknown';
    case 'COMPLETED':
      return 'completed';
    case 'CANCELLED':
      return 'cancelled';
    case 'FAILED':
    case 'TERMINATED':
    case 'TIMED_OUT':
      return 'failed';
    default:
      return 'open';
  }
}

function progressOf({ typedSearchAttributes, raw }: WorkflowExecutionDescription): WorkflowRunState {
  // Workflows set the search attribute ErrorCode while they are parked.
  const code = typedSearchAttributes.get(defineSearchAttributeKey('ErrorCode', 'KEYWORD'));
  if (code !== undefined) return { state: 'parked', error: faultOf(code) };
  if ((raw.pendingWorkflowTask?.attempt ?? 0) < STUCK_AFTER_ATTEMPTS) return { state: 'open' };
  const message = 'The workflow task fails repeatedly; the Temporal UI shows why (TemporalReportedProblems).';
  return { state: 'stuck', error: { code: 'internal_error', message } };
}

/** Returns the start id of a run whose cancellation was requested; runs of older releases have no start id. */
function requestedStopOf({ memo, raw }: WorkflowExecutionDescription): Pick<WorkflowRunState, 'toStop'> {
  const startId = memo?.startId;
  if (raw.workflowExtendedInfo?.cancelRequested !== true || typeof startId !== 'string') return {};
  return { toStop: startId };
}

async function failureOf(run: WorkflowHandle): Promise<{ code: string; message: string }> {
  const error: unknown = await run.result().catch((failure: unknown) => failure);
  const cause = error instanceof WorkflowFailedError ? error.cause : undefined;
  // Failed workflows have the error code as the type of their failure, and at the beginning of its message.
  if (cause instanceof ApplicationFailure && isErrorCode(cause.type ?? '')) {
    const code = cause.type ?? '';
    return { code, message: cause.message.replace(`${code}: `, '') };
  }
  if (error instanceof WorkflowFailedError) return faultOf('run_terminated');
  throw error;
}

function faultOf(code: string): { code: string; message: string } {
  return { code, message: isErrorCode(code) ? appError(code).message : code };
}

function unless(expected: new (...args: never[]) => Error): (error: unknown) => undefined {
  return (error) => {
    if (!(error instanceof expected)) throw error;
    return undefined;
  };
}

import {
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { nudgeSignalName } from '#src/contracts/alignment.ts';
import type { JobKind } from '#src/contracts/jobs.ts';
import { retryUpdateName, skipUpdateName } from '#src/contracts/messages.ts';
import { pauseUpdateName, resumeUpdateName } from '#src/contracts/reembedding.ts';
import { type TaskQueue, taskQueues } from '#src/contracts/task-queues.ts';
import { appError } from '#src/errors.ts';
import type { MoveResult, Orchestrator } from '#src/ports/orchestrator.ts';
import type { TemporalConnection } from './connection.ts';
import { searchAttributes } from './search-attributes.ts';

/** A poll lasts at most a minute: a poller that was not seen for longer is gone. */
const POLLER_SEEN_WITHIN_MS = 70_000;

/** A worker has to answer, which may be busy; nobody asks a second time. */
const UPDATE_TIMEOUT_MS = 10_000;

/** Of five: what somebody waits for, and what runs in bulk. Activities inherit it. */
const PRIORITIES = { interactive: 2, bulk: 4 };

/** The orchestrator port over Temporal, whose outages it throws as `service_unavailable`, and the only place in src that names a workflow. */
export function createOrchestrator(connection: TemporalConnection, options: { uiUrl: string | null }): Orchestrator {
  const { client, namespace } = connection;
  const { workflow } = client;
  const call = <T>(work: () => Promise<T>, timeoutMs?: number): Promise<T> =>
    connection.call(work, timeoutMs).catch(throwOutage);

  async function hasPoller(taskQueue: TaskQueue): Promise<boolean> {
    const { pollers } = await call(() =>
      client.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
    );
    const oldest = (Date.now() - POLLER_SEEN_WITHIN_MS) / 1000;
    return (pollers ?? []).some((poller) => Number(poller.lastAccessTime?.seconds ?? 0) >= oldest);
  }

  /** False also when the run of the last attempt, which stood in the way of the start, has closed since. */
  async function isFrom(workflowId: string, attempt: number): Promise<boolean> {
    const { status, memo } = await call(() => workflow.getHandle(workflowId).describe());
    return memo?.attempt === attempt || status.name === 'COMPLETED';
  }

  async function move(workflowId: string, update: string, timeoutMs?: number): Promise<MoveResult> {
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
    }, timeoutMs);
  }

  return {
    async start({ workflowId, start, attempt, attributes, requestId }) {
      const options = {
        workflowId,
        workflowIdConflictPolicy: 'USE_EXISTING',
        staticSummary: start.summary,
        memo: { requestId, attempt },
        priority: {
          priorityKey: start.bulk ? PRIORITIES.bulk : PRIORITIES.interactive,
          // Nobody's backlog keeps others waiting: a queue serves organizations in turn.
          fairnessKey: attributes.orgId,
        },
      } as const;
      const attributesOf = (kind: JobKind) =>
        searchAttributes({
          OrgId: attributes.orgId,
          DocumentId: attributes.documentId,
          AgentId: attributes.agentId,
          ChatId: attributes.chatId,
          JobKind: kind,
        });

      switch (start.workflow) {
        case 'ingestDocument':
          await call(() =>
            workflow
              .start(start.workflow, {
                ...options,
                taskQueue: taskQueues.ingestion,
                workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
                typedSearchAttributes: attributesOf('ingest'),
                args: [start.input],
              })
              .catch(unless(WorkflowExecutionAlreadyStartedError)),
          );
          break;
        case 'scoreAlignment':
          await call(() =>
            workflow.signalWithStart(start.workflow, {
              ...options,
              taskQueue: taskQueues.alignment,
              workflowIdReusePolicy: 'ALLOW_DUPLICATE',
              typedSearchAttributes: attributesOf('alignment'),
              args: [start.input],
              signal: nudgeSignalName,
            }),
          );
          break;
        case 'deleteDocument':
          await call(() =>
            workflow.start(start.workflow, {
              ...options,
              taskQueue: taskQueues.deletion,
              // A document that a backup has brought back is deleted again; where nothing is left it does nothing.
              workflowIdReusePolicy: 'ALLOW_DUPLICATE',
              typedSearchAttributes: attributesOf('delete'),
              args: [start.input],
            }),
          );
          break;
        case 'reembedOrganization':
          await call(() =>
            workflow.start(start.workflow, {
              ...options,
              taskQueue: taskQueues.reembedding,
              workflowIdReusePolicy: 'ALLOW_DUPLICATE',
              typedSearchAttributes: attributesOf('reembed'),
              args: [start.input],
            }),
          );
          break;
      }
      // A run tells its job that it failed just before it closes. An alignment is nudged, whose attempt it ever is.
      if (attempt === 1 || start.workflow === 'scoreAlignment') return 'started';
      return (await isFrom(workflowId, attempt)) ? 'started' : 'closing';
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
    },

    uiUrl(workflowId) {
      if (options.uiUrl === null) return null;
      return `${options.uiUrl.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
    },

    async hasPollers() {
      const answers = await Promise.all(Object.values(taskQueues).map(hasPoller));
      return answers.every(Boolean);
    },
  };
}

/** For `catch`: what the client says of a server that does not answer, or of a worker that does not. */
function throwOutage(error: unknown): never {
  const isOutage =
    error instanceof ServiceError ||
    error instanceof WorkflowUpdateRPCTimeoutOrCancelledError ||
    isGrpcServiceError(error);
  if (!isOutage) throw error;
  throw appError('service_unavailable', { detail: 'The workflow engine does not answer.', cause: error });
}

/** For `catch`: swallows errors of this class, where they mean that there is nothing left to do. */
function unless(expected: new (...args: never[]) => Error): (error: unknown) => undefined {
  return (error) => {
    if (!(error instanceof expected)) throw error;
    return undefined;
  };
}

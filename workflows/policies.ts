import type { WorkflowDefinitionOptions } from '@temporalio/common';
import { type ActivityOptions, workflowInfo } from '@temporalio/workflow';

/**
 * Default timeouts and retries of activities. Every activity heartbeats from a timer, so a missing heartbeat reveals a
 * dead worker, and start-to-close timeouts only bound activities that hang.
 */
const retriedForADay = {
  // Three missed heartbeats with reserve: the activity of a killed worker is retried within 15 seconds.
  heartbeatTimeout: '10 seconds',
  // A cancelled run waits for its activity to stop, so that nothing is written after its end.
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  // Eager dispatch would let an activity overtake all tasks that wait in the queue.
  allowEagerDispatch: false,
  retry: {
    initialInterval: '1 second',
    backoffCoefficient: 2,
    // Longest wait between retries: a failing service gets few requests, and is used again within a minute after its
    // outage.
    maximumInterval: '1 minute',
    // Number of attempts within about one day. A shorter outage needs no operator; a longer one parks the run. The
    // limit is no duration, because waiting in the queue is no failure.
    maximumAttempts: 24 * 60,
  },
} satisfies ActivityOptions;

export const quickActivityPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of quick activities: usually milliseconds; deleting the old generation of a very large document takes
  // longest.
  startToCloseTimeout: '2 minutes',
};

export const documentBatchPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of activities that wait half a minute for documents, or write 20 transactions and start 20 workflows.
  // The remaining time is for a busy database.
  startToCloseTimeout: '2 minutes',
};

/**
 * For activities that record in the job that its run has ended or is parked. Their priority is high, because clients
 * wait for these updates.
 */
export const jobUpdatePolicy: ActivityOptions = {
  ...quickActivityPolicy,
  priority: { priorityKey: 1 },
  summary: 'Recording the state of the run in its job',
};

export const storeAuditPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of an audited page: usually seconds; deleting orphaned chunks of large documents takes longest.
  startToCloseTimeout: '30 minutes',
};

export const sweepPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of a sweep, which may read tables of a hundred million rows or build an index.
  startToCloseTimeout: '6 hours',
  // The next scheduled run tries again.
  retry: { initialInterval: '1 second', backoffCoefficient: 4, maximumInterval: '5 minutes', maximumAttempts: 6 },
};

export const providerListingPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of activities that call a provider repeatedly for 20 seconds. The last call may take 30 seconds; the
  // remaining time is for storing the results.
  startToCloseTimeout: '2 minutes',
};

export const fileTransferPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of a file transfer, for the largest file of the largest tier over a slow line. A volume of an export is
  // smaller and takes about ten minutes.
  startToCloseTimeout: '1 hour',
};

export const slowActivityPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of the conversion of a document: the parser may take one minute, the office program two, and OCR 20
  // seconds plus one page of a minute. The rest is for waiting, because few documents are rendered concurrently.
  startToCloseTimeout: '10 minutes',
};

/**
 * For the activity with all steps of a small document. It is not retried, because the workflow then runs the steps
 * separately.
 */
export const singleAttemptPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of the steps of a small document: usually seconds; the rest is for a busy embedding model, whose calls
  // may take five minutes.
  startToCloseTimeout: '5 minutes',
  retry: { maximumAttempts: 1 },
};

/**
 * For activities that process a slice of about half a minute (model calls, chunking), so that other tasks can run in
 * between.
 */
export const modelBatchPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of an activity that makes a few batches of model calls, each call of at most five minutes, or that
  // chunks a document: chunking takes at most a minute but waits for other documents of the process.
  startToCloseTimeout: '30 minutes',
};

export const modelCallPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of three model calls of two minutes each. The rest is for waiting for a free slot or for `Retry-After`.
  // A local model answers one call at a time, in about half a minute.
  startToCloseTimeout: '3 hours',
};

/** For work that a run can do without, such as the title of a chat: three attempts only. */
export const optionalActivityPolicy: ActivityOptions = {
  heartbeatTimeout: retriedForADay.heartbeatTimeout,
  cancellationType: retriedForADay.cancellationType,
  // Time limit of one short answer of a slow model, which may have to answer chats first.
  startToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumAttempts: 3 },
};

/**
 * For workflows that end on the worker version that started them, whose workers must stay until then. All others move to
 * new versions. Temporal rejects the option for unversioned workers.
 */
export function pinnedToWorkerVersion(): WorkflowDefinitionOptions {
  const isVersioned = Boolean(workflowInfo().currentDeploymentVersion?.deploymentName);
  return isVersioned ? { versioningBehavior: 'PINNED' } : {};
}

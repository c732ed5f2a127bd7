import type { ActivityOptions } from '@temporalio/workflow';

/**
 * Timeouts and retries of activities. Every activity heartbeats from a timer, so a missing heartbeat reveals a dead worker,
 * and the start-to-close timeouts only bound activities that hang.
 */
const retriedForADay = {
  // Three missed heartbeats with reserve: the activity of a killed worker is retried within 15 seconds.
  heartbeatTimeout: '10 seconds',
  // A cancelled run waits for its activity to stop, so that nothing is written after its end.
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  // Eager activities would overtake all tasks that wait in the queue.
  allowEagerDispatch: false,
  retry: {
    initialInterval: '1 second',
    backoffCoefficient: 2,
    // Maximum retry interval: a service is used again within a minute after an outage, and gets few requests during it.
    maximumInterval: '1 minute',
    // Number of attempts in about one day: shorter outages need no operator; after that the run is parked. Attempts are
    // counted instead of hours, because time in the queue is not a failure.
    maximumAttempts: 24 * 60,
  },
} satisfies ActivityOptions;

export const quickPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of quick activities: usually milliseconds; deleting the old generation of a very large document takes
  // longest.
  startToCloseTimeout: '2 minutes',
};

export const fewDocumentsPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit for half a minute of waiting, or 20 transactions and 20 workflow starts; the rest is reserve for a busy
  // database.
  startToCloseTimeout: '2 minutes',
};

/** Records the end of a run, or that it is parked. High priority, because clients wait for it. */
export const recordPolicy: ActivityOptions = { ...quickPolicy, priority: { priorityKey: 1 } };

export const comparisonPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of bulk deletions: usually seconds; deleting orphaned chunks of large documents takes longest.
  startToCloseTimeout: '30 minutes',
};

export const remotePagesPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit for 20 seconds of calls to a provider, the last of which may take 30 seconds; the rest is for storing
  // the results.
  startToCloseTimeout: '2 minutes',
};

export const transferPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit for the largest file of the largest tier over a slow line. Volumes of exports are smaller and take about
  // ten minutes.
  startToCloseTimeout: '1 hour',
};

export const bulkPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of a conversion: the parser may take one minute, the office program two, and OCR 20 seconds plus one
  // page of a minute. The rest is for waiting, because few documents are rendered concurrently.
  startToCloseTimeout: '10 minutes',
};

/** All steps for a small document. Not retried: after a failure the steps run one by one, so that the failing one shows. */
export const oneAttemptPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of the steps of a small document: usually seconds; the rest is for a busy embedding model, whose calls
  // may take five minutes.
  startToCloseTimeout: '5 minutes',
  retry: { maximumAttempts: 1 },
};

/** Calls models for about half a minute, or chunks a large document; then other tasks can run. */
export const modelSlicePolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit of a slice of model calls: a few batches of at most five minutes each. Chunking takes at most a minute,
  // but waits for other documents in the same process.
  startToCloseTimeout: '30 minutes',
};

export const modelQuestionPolicy: ActivityOptions = {
  ...retriedForADay,
  // Time limit for three model calls of two minutes each; the rest is for waiting for a free slot or for `Retry-After`.
  // A local model answers one call at a time, in about half a minute.
  startToCloseTimeout: '3 hours',
};

/** Retries of work that a run can do without, such as the title of a chat: a few attempts only. */
export const optionalPolicy: ActivityOptions = {
  heartbeatTimeout: retriedForADay.heartbeatTimeout,
  cancellationType: retriedForADay.cancellationType,
  // Time limit for one short answer of a slow model, which answers chats first.
  startToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumAttempts: 3 },
};

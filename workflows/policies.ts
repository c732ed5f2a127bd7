import type { ActivityOptions } from '@temporalio/workflow';

/**
 * How long steps may take and how they are retried. Every step heartbeats from a timer, so that a dead worker is
 * noticed by silence and the limits below only bound steps that hang.
 */
const untilHealed = {
  // Three missed beats and reserve: a killed worker's step runs elsewhere within 15 seconds.
  heartbeatTimeout: '10 seconds',
  // A cancelled run ends when its step has stopped, so that nothing is written after it.
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  // A step that begins on the worker where the last one ended would pass by all that wait in the queue.
  allowEagerDispatch: false,
  retry: {
    initialInterval: '1 second',
    backoffCoefficient: 2,
    // A service that is back is used within a minute, and one that is down is not hammered.
    maximumInterval: '1 minute',
    // An outage of a working day and a night may pass unattended; what still fails then waits for a person. Attempts
    // are counted, and not hours: what waits for a worker, or for its turn, has not failed.
    maximumAttempts: 24 * 60,
  },
} satisfies ActivityOptions;

/** Some rows of our own database. */
export const quick: ActivityOptions = {
  ...untilHealed,
  // Milliseconds as a rule; collecting the old generation of a very large document takes longest.
  startToCloseTimeout: '2 minutes',
};

/** Beginning with some documents of many, or waiting for some of them. */
export const turn: ActivityOptions = {
  ...untilHealed,
  // Half a minute of waiting, or twenty transactions and as many starts of runs; the rest is for a busy database.
  startToCloseTimeout: '2 minutes',
};

/** What a run says of its end, or of its waiting for a person: before all work, since others may count on it. */
export const record: ActivityOptions = { ...quick, priority: { priorityKey: 1 } };

/** A thousand things that two stores have in common, and mending those that differ. */
export const comparison: ActivityOptions = {
  ...untilHealed,
  // Seconds as a rule; deleting the chunks that large documents left behind takes longest.
  startToCloseTimeout: '30 minutes',
};

/** Pages of what a provider has, or some of what it has no longer. */
export const remotePages: ActivityOptions = {
  ...untilHealed,
  // Twenty seconds of calls, the last of which may take its half minute; the rest is for writing down what came.
  startToCloseTimeout: '2 minutes',
};

/** One file from a provider into our store, or one volume of an export. */
export const transfer: ActivityOptions = {
  ...untilHealed,
  // The largest file of the largest tier over a slow line; a volume is no larger than that, and is read for ten minutes.
  startToCloseTimeout: '1 hour',
};

/** Reading and parsing one file, or printing it. */
export const bulk: ActivityOptions = {
  ...untilHealed,
  // The parser has its own limit of one minute, and an office program of two; scans are read for twenty seconds and one
  // page of a minute at most. The rest is for waiting until it is its turn, of which few print at once.
  startToCloseTimeout: '10 minutes',
};

/** All steps of something small: what goes wrong is tried again step by step, where everybody sees which. */
export const attempt: ActivityOptions = {
  ...untilHealed,
  // Seconds as a rule; the rest is for a slow model that is busy with others, or the limit of one call of it.
  startToCloseTimeout: '5 minutes',
  retry: { maximumAttempts: 1 },
};

/** Model calls for about half a minute, or cutting a large document: after either, others have their turn. */
export const modelSlice: ActivityOptions = {
  ...untilHealed,
  // Each batch has its own limit of five minutes, and a slice is a few of them. A cut takes a minute at most, and waits
  // for those that are made in the same process.
  startToCloseTimeout: '30 minutes',
};

/** One question to a model that judges or is judged. How often a model may fail is counted by the step itself. */
export const question: ActivityOptions = {
  ...untilHealed,
  // Three calls of two minutes each; the rest is for waiting until it is its turn, or until a busy service may be asked.
  // Of a model of our own, for all that the steps before it ask: one call at a time, half a minute each.
  startToCloseTimeout: '3 hours',
};

/** Something nice to have, such as a chat's title: a few attempts, and the run goes on without it. */
export const optional: ActivityOptions = {
  heartbeatTimeout: untilHealed.heartbeatTimeout,
  cancellationType: untilHealed.cancellationType,
  // One short answer of a slow model, behind the answers that people wait for.
  startToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumAttempts: 3 },
};

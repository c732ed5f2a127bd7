/** Query for the progress of a workflow. */
export const stageQueryName = 'stage';

/**
 * Updates for a parked run. `retry` repeats the failed step and returns once the job's row is updated; `skip` fails the run
 * with the code `skipped`. Both are rejected while the run is not parked.
 */
export const retryUpdateName = 'retry';
export const skipUpdateName = 'skip';

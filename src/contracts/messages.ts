/** Query that every workflow answers with its progress. */
export const stageQueryName = 'stage';

/**
 * Updates that move a parked run: `retry` goes on with the step that failed and answers once the job's row says so;
 * `skip` ends the run as failed with the code `skipped`. Both are refused while the run is not parked.
 */
export const retryUpdateName = 'retry';
export const skipUpdateName = 'skip';

/** The attempt of the job that started a run; absent in older histories. */
export type AttemptOfJob = { attempt?: number | undefined; startId?: string | undefined };

/** How a workflow handles an error; see the error catalogue. */
export type ErrorClass = 'permanent' | 'transient' | 'operator';

/** First detail of every ApplicationFailure that activities throw. */
export type FailureDetails = { errorClass: ErrorClass };

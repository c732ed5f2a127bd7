/** The attempt of the job that started a run; absent in older histories. */
export type AttemptOfJob = { attempt?: number | undefined; startId?: string | undefined };

/** How a workflow handles an error; see the error catalogue. */
export type ErrorClass = 'permanent' | 'transient' | 'operator';

/** First detail of the ApplicationFailure of a catalogue error. Unexpected errors have no details. */
export type FailureDetails = { errorClass: ErrorClass };

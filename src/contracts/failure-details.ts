/** What a failure asks for; see the error catalogue. */
export type ErrorClass = 'permanent' | 'transient' | 'operator';

/** The first detail of every failure from the catalogue, as activities hand it to workflows. */
export type FailureDetails = { errorClass: ErrorClass };

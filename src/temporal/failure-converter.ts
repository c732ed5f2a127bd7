import { DefaultFailureConverter } from '@temporalio/common';

/** Moves the messages and stack traces of failures into an encrypted payload; the error code stays readable. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });

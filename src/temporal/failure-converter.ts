import { DefaultFailureConverter } from '@temporalio/common';

/** What failed, with which message and where, becomes a payload, which the codec encrypts; its type, our code, stays. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });

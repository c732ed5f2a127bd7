import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServedModels } from './served-models.ts';

export type EndpointContext = {
  request: IncomingMessage;
  response: ServerResponse;
  models: ServedModels;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
};

/** Returns the JSON answer, or nothing when it has written the response itself (a stream). */
export type Endpoint = (context: EndpointContext) => Promise<object | undefined>;

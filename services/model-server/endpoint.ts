import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServedModels } from './served-models.ts';

export type EndpointContext = {
  request: IncomingMessage;
  response: ServerResponse;
  models: ServedModels;
  signal: AbortSignal;
};

/** Returns the JSON body, or undefined if the endpoint wrote the response itself (a stream). */
export type Endpoint = (context: EndpointContext) => Promise<object | undefined>;

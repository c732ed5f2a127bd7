import { z } from 'zod';
import { ok } from './answers.ts';
import type { OpenApiDocument } from './openapi.ts';
import { type Route, route } from './route.ts';

/** The OpenAPI document, which describes this route too: it is made when all routes are known. */
export function openApiRoutes(getDocument: () => OpenApiDocument): Route[] {
  return [
    route({
      method: 'get',
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'health',
      summary: 'This description of the API',
      access: 'public',
      responses: { 200: { description: 'An OpenAPI 3.1 document', schema: z.looseObject({ openapi: z.string() }) } },
      handle: () => ok(getDocument()),
    }),
  ];
}

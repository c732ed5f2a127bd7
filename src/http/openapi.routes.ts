import { z } from 'zod';
import { ok } from './answers.ts';
import type { OpenApiDocument } from './openapi.ts';
import { type Route, route } from './route.ts';

/** @param createDocument is called at the first request, which it blocks for 0.1 s: at start it would delay every process */
export function openApiRoutes(createDocument: () => OpenApiDocument): Route[] {
  let document: OpenApiDocument | undefined;
  return [
    route({
      method: 'get',
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'health',
      summary: 'This description of the API',
      access: 'public',
      responses: { 200: { description: 'An OpenAPI 3.1 document', schema: z.looseObject({ openapi: z.string() }) } },
      handle: () => {
        document ??= createDocument();
        return ok(document);
      },
    }),
  ];
}

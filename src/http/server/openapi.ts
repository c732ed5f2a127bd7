import { z } from 'zod';
import { appError } from '#src/errors.ts';
import { okAnswer } from '../response/answers.ts';
import { problemSchema } from '../response/problem.ts';
import { idempotencyKeyPattern } from '../routing/dispatch.ts';
import { keyScopesOfRoute } from '../routing/key-scopes.ts';
import {
  defineRoute,
  errorCodesOfRoute,
  type HttpRoute,
  isSignableRoute,
  type RouteResponseSpec,
} from '../routing/route.ts';
import { addExample, type DescribedOperation, type OpenApiExample } from './openapi-examples.ts';
import { createJsonSchemas, type JsonSchemas } from './openapi-schemas.ts';

type OpenApiDocument = {
  openapi: '3.1.0';
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, unknown>>;
  components: Record<string, unknown>;
};

export function createOpenApiDocument(
  routes: readonly HttpRoute[],
  options: { basePath: string; title: string; version: string; description: string },
  examples: Readonly<Record<string, OpenApiExample>> = {},
): OpenApiDocument {
  const { basePath, ...info } = options;
  const schemas = createJsonSchemas();
  schemas.convert(problemSchema, 'output', 'Problem');
  const problems: Problems = {};
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    const operation = describeOperation(route, schemas, problems);
    addExample(operation, schemas.components, examples[route.operationId] ?? {});
    paths[path] = { ...paths[path], [route.method]: operation };
  }
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: basePath === '' ? '/' : basePath }],
    paths,
    components: {
      schemas: schemas.components,
      responses: problems,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'Access token of a signed-in user',
        },
        apiKey: { type: 'http', scheme: 'bearer', description: 'Secret of an API key that has the scope' },
        signedUrl: { type: 'apiKey', in: 'query', name: 'signature', description: 'Of a URL from `POST /signed-urls`' },
      },
    },
  };
}

function describeOperation(
  route: HttpRoute,
  schemas: JsonSchemas,
  problems: Problems,
): DescribedOperation & Record<string, unknown> {
  const body = describeBody(route, schemas);
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    security: describeSecurity(route),
    parameters: [
      ...describeParameters(route.params, 'path', route, schemas),
      ...describeParameters(route.query, 'query', route, schemas),
      ...describeHeaders(route),
    ],
    ...(body === undefined ? {} : { requestBody: body }),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.responses).map(([status, spec]) => [status, describeResponse(spec, route, schemas)]),
      ),
      ...describeProblems(route, problems),
    },
  };
}

/** Alternatives: an access token, an API key with one of the scopes, or a signed URL. */
function describeSecurity(route: HttpRoute) {
  if (route.access === 'public') return [];
  const keys = keyScopesOfRoute(route).map((scope) => ({ apiKey: [scope] }));
  return [{ bearer: [] }, ...keys, ...(isSignableRoute(route) ? [{ signedUrl: [] }] : [])];
}

function describeParameters(
  schema: z.ZodType | undefined,
  location: 'path' | 'query',
  route: HttpRoute,
  schemas: JsonSchemas,
) {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemas.convert(schema, 'input', `${route.operationId}Parameters`);
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: location,
    required: location === 'path' || required.includes(name),
    ...describeSchema(property),
  }));
}

/** Puts the description beside the schema, where generators and Swagger UI expect that of a parameter. */
function describeSchema(schema: z.core.JSONSchema._JSONSchema) {
  if (typeof schema === 'boolean') return { schema };
  const { description, ...rest } = schema;
  return { ...(description !== undefined && { description }), schema: rest };
}

function describeHeaders(route: HttpRoute) {
  const header = (name: string, description: string, rules: object = {}) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string', ...rules },
  });
  return [
    ...(route.idempotent
      ? [
          header(
            'Idempotency-Key',
            'Makes the request safe to repeat: the same key with the same request returns the first response',
            {
              pattern: idempotencyKeyPattern.source,
            },
          ),
        ]
      : []),
    ...(route.resumable
      ? [header('Last-Event-ID', 'Id of the last received event; the stream continues after it')]
      : []),
    ...(route.waits ? [header('Prefer', '`wait=N`: seconds to wait for the background work, at most 3600')] : []),
    ...(route.method === 'patch' || route.method === 'put'
      ? [
          header(
            'If-Match',
            route.takesIfMatch
              ? 'ETag of the resource as it was read; 412 if the resource has changed since'
              : 'Only `*` is accepted, because the resource has no ETag; any other value is 412',
          ),
        ]
      : []),
  ];
}

function describeBody(route: HttpRoute, schemas: JsonSchemas) {
  const spec = route.body;
  if (spec === undefined) return undefined;
  const name = `${capitalize(route.operationId)}Body`;
  if (!('kind' in spec)) {
    const required = !spec.safeParse({}).success;
    return { required, content: { 'application/json': { schema: schemas.convertNamed(spec, 'input', name) } } };
  }
  if (spec.kind === 'form_or_json') {
    const schema = schemas.convertNamed(spec.fields, 'input', name);
    const required = !spec.fields.safeParse({}).success;
    return { required, content: { 'multipart/form-data': { schema }, 'application/json': { schema } } };
  }
  const isFileRequired = spec.kind === 'multipart';
  const fields = schemas.convert(spec.fields, 'input', name);
  const form = {
    ...fields,
    properties: { file: { type: 'string' as const, format: 'binary' }, ...fields.properties },
    required: [...(isFileRequired ? ['file'] : []), ...(fields.required ?? [])],
  };
  if (isFileRequired) {
    return { required: true, content: { 'multipart/form-data': { schema: schemas.addComponent(name, form) } } };
  }
  return {
    required: false,
    content: {
      'multipart/form-data': { schema: schemas.addComponent(`${capitalize(route.operationId)}Form`, form) },
      'application/json': { schema: schemas.convertNamed(spec.fields, 'input', name) },
    },
  };
}

function describeResponse(spec: RouteResponseSpec, route: HttpRoute, schemas: JsonSchemas) {
  const { description } = spec;
  const name = `${capitalize(route.operationId)}Result`;
  if ('schema' in spec) {
    return {
      description,
      content: { 'application/json': { schema: schemas.convertNamed(spec.schema, 'output', name) } },
    };
  }
  if ('events' in spec) {
    const schema = schemas.convertNamed(spec.events, 'output', name);
    return {
      description: `${description}. The schema is that of each event's data.`,
      content: { [spec.contentType]: { schema } },
    };
  }
  if ('contentType' in spec) {
    return {
      description,
      content: Object.fromEntries([spec.contentType].flat().map((type) => [type, describeFile(type)])),
    };
  }
  return { description };
}

function describeFile(mediaType: string) {
  if (mediaType === 'application/json') return {};
  return { schema: mediaType.startsWith('text/') ? { type: 'string' } : { type: 'string', format: 'binary' } };
}

const capitalize = (name: string): string => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;

const retryAfter = {
  description: 'Seconds after which the request can be repeated',
  schema: { type: 'integer' },
} as const;
const retryHeaders: Record<number, object> = {
  429: {
    'Retry-After': retryAfter,
    RateLimit: {
      description: 'Remaining requests of each rate limit and seconds until its reset: `"write";r=0;t=7`',
      schema: { type: 'string' },
    },
    'RateLimit-Policy': {
      description: 'Quota of each rate limit and its window in seconds: `"write";q=200;w=10`',
      schema: { type: 'string' },
    },
  },
  503: { 'Retry-After': retryAfter },
};

/** Responses with problem details, by status and codes. Operations refer to them, since most have the same. */
type Problems = Record<string, object>;

function describeProblems(route: HttpRoute, problems: Problems) {
  const byStatus = Map.groupBy(errorCodesOfRoute(route), (code) => appError(code).status);
  return Object.fromEntries(
    [...byStatus]
      // Skips a status that the route declares itself, such as the 503 of `/readyz`, because that response has no
      // problem details.
      .filter(([status]) => !(status in route.responses))
      .map(([status, ofStatus]) => {
        const codes = ofStatus.toSorted();
        const name = [status, ...codes].join('.');
        problems[name] = {
          description: codes.map((code) => `\`${code}\`: ${appError(code).title}`).join('\n\n'),
          ...(status in retryHeaders && { headers: retryHeaders[status] }),
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        };
        return [status, { $ref: `#/components/responses/${name}` }];
      }),
  );
}

/** The document is created at the first request: it takes 0.1 s, which would delay the start of a process. */
export function openApiRoutes(createDocument: () => OpenApiDocument): HttpRoute[] {
  let document: OpenApiDocument | undefined;
  return [
    defineRoute({
      method: 'get',
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'health',
      summary: 'Get this OpenAPI document',
      access: 'public',
      responses: { 200: { description: 'An OpenAPI 3.1 document', schema: z.looseObject({ openapi: z.string() }) } },
      handle: () => {
        document ??= createDocument();
        return okAnswer(document);
      },
    }),
  ];
}

import json from './openapi-examples.json' with { type: 'json' };

/**
 * Example of an operation. `body` and `parameters` are a request that the service accepts; `choose` says what a caller
 * must choose where none can be. `answer` was recorded from that request.
 */
export type OpenApiExample = {
  choose?: string;
  parameters?: Record<string, string>;
  body?: unknown;
  answer?: { status: number; body: unknown };
};

export const openApiExamples: Record<string, OpenApiExample> = json;

type Content = Record<string, { schema?: unknown; example?: unknown } | undefined>;

export type DescribedOperation = {
  operationId: string;
  description?: string;
  parameters: { name: string; in: string; schema: unknown; example?: unknown }[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content | undefined; $ref?: string }>;
};

const placeholderId = '0198c0de-0000-7000-8000-000000000000';

/** Adds the example to an operation. The values of a form stand at its fields, where Swagger UI looks for them. */
export function addExample(operation: DescribedOperation, schemas: Record<string, unknown>, example: OpenApiExample) {
  const { choose, parameters = {}, body, answer } = example;
  if (choose !== undefined) operation.description = `To try it: ${choose}`;
  for (const parameter of operation.parameters) {
    const isId = parameter.in === 'path' && Object(parameter.schema).format === 'uuid';
    const value = parameters[parameter.name] ?? (isId ? placeholderId : undefined);
    if (value !== undefined) parameter.example = value;
  }
  for (const [mediaType, media] of Object.entries(operation.requestBody?.content ?? {})) {
    if (body === undefined || media === undefined) continue;
    const { $ref = '' } = Object(media.schema);
    if (mediaType === 'application/json') media.example = body;
    else addFieldExamples(Object(schemas[$ref.split('/').at(-1)]).properties, body);
  }
  const answered = operation.responses[answer?.status ?? '']?.content?.['application/json'];
  if (answered !== undefined) answered.example = answer?.body;
}

function addFieldExamples(properties: Record<string, object>, body: unknown): void {
  for (const [name, value] of Object.entries(Object(body))) {
    properties[name] = { ...properties[name], examples: [value] };
  }
}

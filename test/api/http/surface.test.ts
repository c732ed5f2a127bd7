import { expect } from 'chai';
import { z } from 'zod';
import { type OpenApiExample, openApiExamples } from '#src/http/server/openapi-examples.ts';
import { readinessSchema } from '#src/http/server/service.routes.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const content = z.record(z.string(), z.object({ schema: z.looseObject({ $ref: z.string().optional() }).optional() }));
const operation = z.object({
  operationId: z.string(),
  requestBody: z.object({ content }).optional(),
  responses: z.record(z.string(), z.object({ content: content.optional() })),
});
const openApiDocument = z.object({
  openapi: z.string(),
  servers: z.array(z.object({ url: z.string() })),
  paths: z.record(z.string(), z.record(z.string(), operation)),
  components: z.object({ schemas: z.record(z.string(), z.looseObject({})) }),
});

/** The lists of values in a schema, as text. Conditions are left out: generators do not read them. */
function enumsIn(schema: unknown): string[] {
  if (schema === null || typeof schema !== 'object') return [];
  return Object.entries(schema).flatMap(([key, part]) => {
    if (key === 'not' || key === 'if') return [];
    return key === 'enum' ? [JSON.stringify(part)] : enumsIn(part);
  });
}

/** Large, and fetched from the internet. */
const withoutRecordedAnswer = ['getOpenApi', 'importDocumentFromUrl'];

function fieldsOf(schema: unknown): { name: string; isWriteOnly: boolean }[] {
  if (schema === null || typeof schema !== 'object') return [];
  return Object.entries(schema).flatMap(([key, part]) => {
    const own = key === 'properties' ? Object.entries(Object(part)) : [];
    const fields = own.map(([name, field]) => ({ name, isWriteOnly: Object(field).writeOnly === true }));
    return [...fields, ...fieldsOf(part)];
  });
}

describe('the API', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('is alive, and is ready once a worker polls each task queue', async () => {
    await api.anonymous.get('/healthz', 200);
    const whole = await startStack({}, { workers: 'all' });
    try {
      // Temporal lists a poller a moment after its first poll.
      const readiness = await until('it is ready', async () => {
        const answer = await whole.anonymous.raw('/readyz');
        const body: unknown = await answer.json();
        return answer.status === 200 && body;
      });
      expect(readinessSchema.parse(readiness).checks).to.deep.equal({ database: true, workers: true, serving: true });
    } finally {
      await whole.close();
    }
  });

  it('links its documentation at / and describes problem types at /errors', async () => {
    expect((await api.anonymous.get('/', 200)).body).property('docs', '/docs');
    const { headers, body } = await api.anonymous.get('/nothing/here', 404);
    expect(body).to.include({ code: 'not_found', instance: '/nothing/here' });
    expect(headers.get('x-content-type-options')).to.equal('nosniff');
    expect(headers.get('content-security-policy')).to.equal("default-src 'none'");
    expect(headers.get('x-powered-by')).to.equal(null);
    const { type } = body as { type: string };
    expect((await api.anonymous.get(type, 200)).body).deep.include({ code: 'not_found', status: 404 });
    await api.anonymous.get('/errors/nonsense', 404);
  });

  it('describes every route at /openapi.json, with regular expressions that clients can compile', async () => {
    const { body } = await api.anonymous.get('/openapi.json', 200);
    const { openapi, paths } = openApiDocument.parse(body);
    expect(openapi).to.equal('3.1.0');
    const described = Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
    expect(described).to.have.members(api.routes.map(({ operationId }) => operationId));
    expect(new Set(described).size).to.equal(described.length);
    const patterns = [...JSON.stringify(body).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)];
    expect(patterns).not.to.have.length(0);
    for (const [, text = ''] of patterns) expect(() => new RegExp(JSON.parse(text), 'u'), text).not.to.throw();
  });

  it('names in the OpenAPI document what generated clients share: bodies, repeated enums, and events by their `type`', async () => {
    const { paths, components } = openApiDocument.parse((await api.anonymous.get('/openapi.json', 200)).body);
    const operations = Object.values(paths).flatMap((path) => Object.values(path));
    const nameless = operations.filter(({ requestBody }) =>
      Object.values(requestBody?.content ?? {}).some(({ schema }) => schema?.$ref === undefined),
    );
    expect(nameless.map(({ operationId }) => operationId)).deep.equal([]);
    const enums = enumsIn({ paths, components });
    expect(enums.filter((values, index) => enums.indexOf(values) !== index)).deep.equal([]);
    const names = ['SendMessageBody', 'Citation', 'Message', 'Echo', 'ToolCall', 'Visibility', 'ChatTokenEvent'];
    expect(components.schemas).include.keys(names);
    expect(JSON.stringify(components)).not.match(/"const":(true|false)/);
    const streams = operations.flatMap(({ responses }) => responses[200]?.content?.['text/event-stream'] ?? []);
    expect(streams).not.length(0);
    for (const { schema } of streams) {
      const { oneOf, discriminator } = Object(components.schemas[schema?.$ref?.split('/').at(-1) ?? '']);
      expect(discriminator.propertyName).equal('type');
      expect(Object.values(discriminator.mapping)).deep.equal(oneOf.map(({ $ref }: { $ref: string }) => $ref));
    }
  });

  it('has an example of each body and each JSON answer, which the schemas of its route accept', () => {
    const missing = api.routes.flatMap(({ operationId, body, responses }) => {
      const { choose, body: sent, answer }: OpenApiExample = openApiExamples[operationId] ?? {};
      const hasFields = body !== undefined && !('kind' in body && Object.keys(Object(body.fields).shape).length === 0);
      if (body !== undefined && sent !== undefined) ('kind' in body ? body.fields : body).parse(sent);
      const spec = responses[answer?.status ?? 0];
      if (spec !== undefined && 'schema' in spec) spec.schema.parse(answer?.body);
      const answers = Object.values(responses).some((response) => 'schema' in response);
      const isExpected = answers && choose === undefined && !withoutRecordedAnswer.includes(operationId);
      return [
        ...(hasFields && sent === undefined ? [`${operationId}: body`] : []),
        ...(isExpected && answer === undefined ? [`${operationId}: answer`] : []),
      ];
    });
    // The bodies are written in openapi-examples.json, and the answers recorded:
    // UPDATE_EXAMPLES=1 npm test -- test/e2e/docs-page.system-test.ts --grep 'as they stand'
    expect(missing).deep.equal([]);
    expect(JSON.stringify(openApiExamples)).not.match(/eyJ[\w-]{10}|PRIVATE KEY/);
  });

  it('marks each secret field of a request body as writeOnly in the OpenAPI document', () => {
    const fields = api.routes.flatMap(({ operationId, body }) => {
      if (body === undefined) return [];
      const schema = 'kind' in body ? body.fields : body;
      const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
      return fieldsOf(json).map((field) => ({ ...field, name: `${operationId} ${field.name}` }));
    });
    const secrets = fields.filter(({ name }) => /password|passphrase|secret|(api|private)_?key$|token$/i.test(name));
    expect(secrets.map(({ name }) => name)).include.members(['createMember password', 'connectTool api_key']);
    expect(secrets.filter(({ isWriteOnly }) => !isWriteOnly)).deep.equal([]);
  });

  it('serves /docs without external resources', async () => {
    const page = await api.anonymous.raw('/docs');
    const html = await page.text();
    expect(page.headers.get('content-security-policy')).to.contain("script-src 'self'");
    expect(html).not.to.match(/(?:src|href)="(?!\/docs\/)/);
    for (const [, link = ''] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
      expect((await api.anonymous.raw(link)).status, link).to.equal(200);
    }
  });

  it('answers under BASE_PATH, is not ready without workers, and allows the origins of CORS_ORIGINS', async () => {
    const origin = 'https://app.example.com';
    const other = await startStack({ BASE_PATH: '/api/v1', CORS_ORIGINS: origin }, { workers: false });
    const ask = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
      other.anonymous.raw(path, { method, headers });
    try {
      const document = openApiDocument.parse(await (await ask('/api/v1/openapi.json')).json());
      expect(document.servers).to.deep.equal([{ url: '/api/v1' }]);
      expect(await (await ask('/api/v1/docs/start.js')).text()).to.contain('/api/v1/openapi.json');
      expect((await ask('/healthz')).status).to.equal(404);

      const readiness = await ask('/api/v1/readyz');
      expect(readiness.status).to.equal(503);
      expect(readinessSchema.parse(await readiness.json()).checks).to.include({ database: true, workers: false });

      const preflight = await ask('/api/v1/folders', { origin, 'access-control-request-method': 'GET' }, 'OPTIONS');
      expect(preflight.status).to.equal(204);
      const own = await ask('/api/v1/healthz', { origin });
      const exposed = own.headers.get('access-control-expose-headers')?.split(', ');
      expect(exposed).to.include.members(['RateLimit', 'RateLimit-Policy', 'Retry-After']);
      const stranger = await ask('/api/v1/healthz', { origin: 'https://evil.example.com' });
      const byDefault = await api.anonymous.raw('/healthz', { headers: { origin } });
      const allowed = [preflight, stranger, byDefault].map(({ headers }) => headers.get('access-control-allow-origin'));
      expect(allowed).to.deep.equal([origin, null, null]);
    } finally {
      await other.close();
    }
  });
});

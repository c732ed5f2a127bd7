import { expect } from 'chai';
import { z } from 'zod';
import { readinessSchema } from '#src/http/server/service.routes.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const openApiDocument = z.object({
  openapi: z.string(),
  servers: z.array(z.object({ url: z.string() })),
  paths: z.record(z.string(), z.record(z.string(), z.object({ operationId: z.string() }))),
});

/** Lists the fields of a JSON schema at any depth. */
function fieldsOf(schema: unknown): { name: string; isWriteOnly: boolean }[] {
  if (schema === null || typeof schema !== 'object') return [];
  return Object.entries(schema).flatMap(([key, part]) => {
    const own =
      key === 'properties'
        ? Object.entries(part).map(([name, field]) => ({ name, isWriteOnly: Object(field).writeOnly === true }))
        : [];
    return [...own, ...fieldsOf(part)];
  });
}

describe('the HTTP surface', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('is alive, and ready once a worker polls each task queue', async () => {
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
    const { body } = await api.anonymous.get('/nowhere', 404);
    const { type, code } = body as { type: string; code: string };
    expect((await api.anonymous.get(type, 200)).body).deep.include({ code, status: 404 });
    await api.anonymous.get('/errors/nonsense', 404);
  });

  it('rejects unknown query fields, also on routes without a query', async () => {
    const ada = await api.signUp();
    for (const path of ['/documents', '/folders', '/agents', '/entity/me/profile']) {
      const { body } = await ada.get(`${path}?colour=red`, 422);
      expect(body, path).property('detail', 'colour: This field is not known');
    }
  });

  it('describes every route at /openapi.json', async () => {
    const { body } = await api.anonymous.get('/openapi.json', 200);
    const { openapi, paths } = openApiDocument.parse(body);
    expect(openapi).to.equal('3.1.0');
    const described = Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
    expect(described).to.have.members(api.routes.map(({ operationId }) => operationId));
    expect(new Set(described).size).to.equal(described.length);
  });

  it('marks each secret field of a body as writeOnly', () => {
    const schemas = api.routes.flatMap(({ operationId, body }) =>
      body === undefined ? [] : [{ operationId, schema: 'kind' in body ? body.fields : body }],
    );
    const fields = schemas.flatMap(({ operationId, schema }) => {
      const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
      return fieldsOf(json).map((field) => ({ ...field, name: `${operationId} ${field.name}` }));
    });
    const secrets = fields.filter(({ name }) => /password|passphrase|secret|(api|private)_?key$|token$/i.test(name));
    expect(secrets.map(({ name }) => name)).include.members(['createMember password', 'connectTool api_key']);
    expect(secrets.filter(({ isWriteOnly }) => !isWriteOnly)).deep.equal([]);
  });

  it('has patterns for texts that clients can compile', async () => {
    const { body } = await api.anonymous.get('/openapi.json', 200);
    const patterns = [...JSON.stringify(body).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, text = '']) =>
      JSON.parse(text),
    );
    expect(patterns).not.to.have.length(0);
    for (const pattern of new Set(patterns)) expect(() => new RegExp(pattern, 'u'), pattern).not.to.throw();
  });

  it('serves /docs without external resources', async () => {
    const page = await api.anonymous.raw('/docs');
    const html = await page.text();
    expect(page.headers.get('content-security-policy')).to.contain("script-src 'self'");
    expect(html).not.to.match(/(?:src|href)="(?!\/docs\/)/);
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link);
    for (const link of links) expect((await api.anonymous.raw(link)).status, link).to.equal(200);
  });

  it('answers 404 for unknown paths, with security headers', async () => {
    const { headers, body } = await api.anonymous.get('/nothing/here', 404);
    expect(body).to.include({ code: 'not_found', instance: '/nothing/here' });
    expect(headers.get('x-content-type-options')).to.equal('nosniff');
    expect(headers.get('content-security-policy')).to.equal("default-src 'none'");
    expect(headers.get('x-powered-by')).to.equal(null);
  });

  it('allows no CORS origin by default', async () => {
    const response = await api.anonymous.raw('/healthz', { headers: { origin: 'https://app.example.com' } });
    expect(response.headers.get('access-control-allow-origin')).to.equal(null);
  });

  describe('with other settings', () => {
    const origin = 'https://app.example.com';
    let other: Stack;
    before(async () => {
      other = await startStack({ BASE_PATH: '/api/v1', CORS_ORIGINS: origin }, { workers: false });
    });
    after(() => other.close());

    it('is served under its base path', async () => {
      const document = openApiDocument.parse(await (await other.anonymous.raw('/api/v1/openapi.json')).json());
      expect(document.servers).to.deep.equal([{ url: '/api/v1' }]);
      expect(await (await other.anonymous.raw('/api/v1/docs/start.js')).text()).to.contain('/api/v1/openapi.json');
      expect((await other.anonymous.raw('/healthz')).status).to.equal(404);
    });

    it('is not ready without workers', async () => {
      const response = await other.anonymous.raw('/api/v1/readyz');
      expect(response.status).to.equal(503);
      expect(readinessSchema.parse(await response.json()).checks).to.include({ database: true, workers: false });
    });

    it('allows the listed CORS origin and answers its preflight', async () => {
      const preflight = await other.anonymous.raw('/api/v1/folders', {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'GET' },
      });
      expect(preflight.status).to.equal(204);
      expect(preflight.headers.get('access-control-allow-origin')).to.equal(origin);
      const own = await other.anonymous.raw('/api/v1/healthz', { headers: { origin } });
      expect(own.headers.get('access-control-expose-headers')?.split(', ')).to.include.members([
        'RateLimit',
        'RateLimit-Policy',
        'Retry-After',
      ]);
      const stranger = await other.anonymous.raw('/api/v1/healthz', {
        headers: { origin: 'https://evil.example.com' },
      });
      expect(stranger.headers.get('access-control-allow-origin')).to.equal(null);
    });
  });
});

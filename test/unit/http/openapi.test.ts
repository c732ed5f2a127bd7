import { expect } from 'chai';
import { z } from 'zod';
import { booleanField, booleanTextField, integerField } from '#src/http/request/fields.ts';
import { cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { eventStreamAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, eventStreamResponse, multipartBody, multipartOrJsonBody } from '#src/http/routing/route.ts';
import { createOpenApiDocument } from '#src/http/server/openapi.ts';
import { routeAt } from '#test/support/served-routes.ts';

const node = z
  .strictObject({
    name: z.string(),
    get children() {
      return z.array(node);
    },
  })
  .meta({ id: 'Node' });

const facts = <Method extends 'get' | 'post' | 'patch'>(method: Method, path: string) => ({
  ...routeAt(method, path),
  access: 'user' as const,
  responses: { 200: { description: 'It', schema: node } },
  handle: () => okAnswer({ name: 'a', children: [] }),
});
const form = {
  fields: z.strictObject({ name: z.string().optional() }),
  store: () => Promise.reject(new Error('not here')),
  discard: async () => {},
};
const searchBody = z
  .strictObject({ word: z.string().optional(), node_id: z.string().optional(), deep: z.boolean().default(false) })
  .meta({ anyOf: [{ required: ['word'] }, { required: ['node_id'] }] });
const nodeEvents = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('found'), node }).meta({ id: 'NodeFoundEvent' }),
  z.strictObject({ type: z.literal('done') }).meta({ id: 'NodeSearchDoneEvent' }),
]);
const search = { ...facts('post', '/search'), operationId: 'searchNodes', body: searchBody };
const document = createOpenApiDocument(
  [
    defineRoute({
      ...facts('get', '/nodes/:node_id'),
      params: z.strictObject({ node_id: uuidPathParam('folder_not_found') }),
      query: z.strictObject({ depth: integerField({ min: 0, max: 9 }).default(1), word: z.string() }),
      errors: ['folder_not_found'],
    }),
    defineRoute({ ...facts('get', '/nodes'), query: z.strictObject(cursorPaginationQuery) }),
    defineRoute({ ...facts('post', '/nodes'), operationId: 'addNode', idempotent: true, body: multipartBody(form) }),
    defineRoute({ ...facts('patch', '/nodes'), operationId: 'changeNode', body: multipartOrJsonBody(form) }),
    defineRoute(search),
    defineRoute({
      ...search,
      path: '/search/stream',
      operationId: 'streamNodes',
      query: z.strictObject({
        deep: booleanTextField.default(true).describe('All levels'),
        all: booleanField.optional(),
      }),
      responses: { 200: eventStreamResponse(nodeEvents.meta({ id: 'NodeEvent' })) },
      handle: () => eventStreamAnswer(async () => {}),
    }),
  ],
  { basePath: '/api', title: 'Nodes', version: '1.0.0', description: 'Trees' },
);
const at = (path: string) =>
  path.split(' ').reduce<unknown>((value, key) => (value === undefined ? value : Object(value)[key]), document);

describe('the OpenAPI document', () => {
  it('describes paths under the base path, with required and optional parameters', () => {
    expect(document.servers).deep.equal([{ url: '/api' }]);
    expect(Object.keys(document.paths)).include.members(['/nodes/{node_id}', '/nodes']);
    const parameterAt = (index: number) => at(`paths /nodes/{node_id} get parameters ${index}`);
    expect(parameterAt(0)).include({ name: 'node_id', in: 'path', required: true });
    expect(parameterAt(1)).deep.include({ name: 'depth', in: 'query', required: false });
    expect(parameterAt(1)).nested.include({ 'schema.type': 'integer', 'schema.default': 1 });
    expect(parameterAt(2)).include({ name: 'word', in: 'query', required: true });
  });

  it('puts named schemas into components, also recursive schemas', () => {
    const answer = at('paths /nodes/{node_id} get responses 200 content application/json schema');
    expect(answer).deep.equal({ $ref: '#/components/schemas/Node' });
    expect(at('components schemas Node properties children items')).deep.equal(answer);
  });

  it('describes a form with a file, and a form with an optional file also as JSON', () => {
    const bodyOf = (method: string, type: string) => {
      const { $ref } = Object(at(`paths /nodes ${method} requestBody content ${type} schema`));
      return at($ref.slice(2).replaceAll('/', ' '));
    };
    const withFile = bodyOf('post', 'multipart/form-data');
    expect(withFile).nested.property('properties.file.format', 'binary');
    expect(withFile).deep.property('required', ['file']);
    expect(at('paths /nodes patch requestBody')).include({ required: false });
    expect(bodyOf('patch', 'multipart/form-data')).deep.property('required', []);
    const json = bodyOf('patch', 'application/json');
    expect(json).nested.property('properties.name');
    expect(json).not.nested.property('properties.file');
  });

  it('names bodies after their operation, or after the first one that has the same body', () => {
    const refsOf = (path: string) =>
      Object.values(Object(at(`paths ${path} requestBody content`))).map((type) => Object(type).schema.$ref);
    expect(refsOf('/nodes post')).deep.equal(['#/components/schemas/AddNodeBody']);
    expect(refsOf('/nodes patch')).deep.equal([
      '#/components/schemas/ChangeNodeForm',
      '#/components/schemas/ChangeNodeBody',
    ]);
    expect(refsOf('/search post')).deep.equal(['#/components/schemas/SearchNodesBody']);
    expect(refsOf('/search/stream post')).deep.equal(refsOf('/search post'));
  });

  it('describes events by their `type`, and text that means a boolean as a boolean', () => {
    const stream = at('paths /search/stream post responses 200 content text/event-stream schema');
    expect(stream).deep.equal({ $ref: '#/components/schemas/NodeEvent' });
    const [found, done] = ['#/components/schemas/NodeFoundEvent', '#/components/schemas/NodeSearchDoneEvent'];
    expect(at('components schemas NodeEvent')).deep.equal({
      oneOf: [{ $ref: found }, { $ref: done }],
      discriminator: { propertyName: 'type', mapping: { found, done } },
    });
    const parameters = at('paths /search/stream post parameters');
    expect(parameters).deep.include.members([
      {
        name: 'deep',
        in: 'query',
        required: false,
        description: 'All levels',
        schema: { type: 'boolean', default: true },
      },
      { name: 'all', in: 'query', required: false, schema: { type: 'boolean' } },
    ]);
  });

  it('describes alternatives of a body as a condition, as generators take `anyOf` for a union of types', () => {
    const body = at('components schemas SearchNodesBody');
    expect(body).include.keys('type', 'properties').not.keys('anyOf');
    expect(body).deep.include({ if: { anyOf: [{ required: ['word'] }, { required: ['node_id'] }] }, else: false });
  });

  it('lists the errors that a route declares, and the errors that all routes of its kind have', () => {
    const statuses = Object.keys(Object(at('paths /nodes/{node_id} get responses')));
    expect(statuses).members(['200', '401', '403', '404', '422', '429', '500', '503']);
    const problemOf = (method: string, status: number): Record<string, unknown> => {
      const { $ref } = Object(at(`paths /nodes ${method} responses ${status}`));
      return Object(at($ref.slice(2).replaceAll('/', ' ')));
    };
    expect(problemOf('get', 429).headers).keys('Retry-After', 'RateLimit', 'RateLimit-Policy');
    expect(problemOf('get', 503).headers).keys('Retry-After');
    expect(problemOf('post', 409).description).contain('idempotency_in_flight');
    const schema = { $ref: '#/components/schemas/Problem' };
    expect(problemOf('post', 409).content).deep.equal({ 'application/problem+json': { schema } });
    expect(problemOf('get', 400).description).contain('invalid_cursor');
  });

  it('has no dangling references', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, target = '']) => target);
    for (const target of references) expect(at(target.slice(2).replaceAll('/', ' ')), target).not.equal(undefined);
  });
});

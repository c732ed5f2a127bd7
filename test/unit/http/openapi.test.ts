import { expect } from 'chai';
import { z } from 'zod';
import { integerField } from '#src/http/request/fields.ts';
import { cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, multipartBody, multipartOrJsonBody } from '#src/http/routing/route.ts';
import { createOpenApiDocument } from '#src/http/server/openapi.ts';

const node = z
  .strictObject({
    name: z.string(),
    get children() {
      return z.array(node);
    },
  })
  .meta({ id: 'Node' });

const document = createOpenApiDocument(
  [
    defineRoute({
      method: 'get',
      path: '/nodes/:node_id',
      operationId: 'getNode',
      tag: 'nodes',
      summary: 'A node',
      access: 'user',
      params: z.strictObject({ node_id: uuidPathParam('folder_not_found') }),
      query: z.strictObject({ depth: integerField({ min: 0, max: 9 }).default(1), word: z.string() }),
      responses: { 200: { description: 'It', schema: node } },
      errors: ['folder_not_found'],
      handle: () => okAnswer({ name: 'a', children: [] }),
    }),
    defineRoute({
      method: 'get',
      path: '/nodes',
      operationId: 'listNodes',
      tag: 'nodes',
      summary: 'Nodes, newest first',
      access: 'user',
      query: z.strictObject(cursorPaginationQuery),
      responses: { 200: { description: 'One of them', schema: node } },
      handle: () => okAnswer({ name: 'a', children: [] }),
    }),
    defineRoute({
      method: 'post',
      path: '/nodes',
      operationId: 'createNode',
      tag: 'nodes',
      summary: 'A new node from a file',
      access: 'user',
      idempotent: true,
      body: multipartBody({
        fields: z.strictObject({ name: z.string().optional() }),
        store: () => Promise.reject(new Error('not here')),
        discard: async () => {},
      }),
      responses: { 201: { description: 'It', schema: node } },
      handle: () => createdAnswer({ name: 'a', children: [] }),
    }),
    defineRoute({
      method: 'patch',
      path: '/nodes',
      operationId: 'changeNode',
      tag: 'nodes',
      summary: 'A changed node, perhaps of another file',
      access: 'user',
      body: multipartOrJsonBody({
        fields: z.strictObject({ name: z.string().optional() }),
        store: () => Promise.reject(new Error('not here')),
        discard: async () => {},
      }),
      responses: { 200: { description: 'It', schema: node } },
      handle: () => okAnswer({ name: 'a', children: [] }),
    }),
  ],
  { basePath: '/api', title: 'Nodes', version: '1.0.0', description: 'Trees' },
);
const at = (path: string) =>
  path.split(' ').reduce<unknown>((value, key) => (value === undefined ? value : Object(value)[key]), document);

describe('the OpenAPI document', () => {
  it('has paths with parameters in braces, under the base path', () => {
    expect(Object.keys(document.paths)).to.deep.equal(['/nodes/{node_id}', '/nodes']);
    expect(document.servers).to.deep.equal([{ url: '/api' }]);
  });

  it('describes parameters and whether they are required', () => {
    const parameters = z
      .array(z.looseObject({ name: z.string(), in: z.string(), required: z.boolean() }))
      .parse(at('paths /nodes/{node_id} get parameters'));
    expect(parameters.map((parameter) => [parameter.name, parameter.in, parameter.required])).to.deep.equal([
      ['node_id', 'path', true],
      ['depth', 'query', false],
      ['word', 'query', true],
    ]);
  });

  it('puts named schemas into components, also recursive ones', () => {
    const answer = at('paths /nodes/{node_id} get responses 200 content application/json schema');
    expect(answer).to.deep.equal({ $ref: '#/components/schemas/Node' });
    expect(at('components schemas Node properties children items')).to.deep.equal(answer);
  });

  it('describes a form with its file', () => {
    const form = at('paths /nodes post requestBody content multipart/form-data schema');
    expect(form).to.have.nested.property('properties.file.format', 'binary');
    expect(form).to.have.deep.property('required', ['file']);
  });

  it('describes a form with an optional file also as JSON', () => {
    const body = at('paths /nodes patch requestBody');
    expect(body).to.nested.include({ required: false });
    expect(at('paths /nodes patch requestBody content multipart/form-data schema')).to.have.deep.property(
      'required',
      [],
    );
    const json = at('paths /nodes patch requestBody content application/json schema');
    expect(json).to.have.nested.property('properties.name');
    expect(json).not.to.have.nested.property('properties.file');
  });

  it('lists the errors that a route declares and those that follow from its kind', () => {
    expect(Object.keys(Object(at('paths /nodes/{node_id} get responses')))).to.have.members([
      '200',
      '401',
      '404',
      '422',
      '429',
      '500',
      '503',
    ]);
    expect(at('paths /nodes get responses 429 headers')).to.have.keys('Retry-After', 'RateLimit', 'RateLimit-Policy');
    expect(at('paths /nodes get responses 503 headers')).to.have.keys('Retry-After');
    expect(at('paths /nodes post responses 409 description')).to.contain('idempotency_in_flight');
    expect(at('paths /nodes post responses 409 content application/problem+json schema')).to.deep.equal({
      $ref: '#/components/schemas/Problem',
    });
  });

  it('lists invalid_cursor for a list with a cursor', () => {
    expect(at('paths /nodes get responses 400 description')).to.contain('invalid_cursor');
  });

  it('has no dangling references', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, target = '']) => target);
    for (const target of references) expect(at(target.slice(2).replaceAll('/', ' ')), target).not.to.equal(undefined);
  });
});

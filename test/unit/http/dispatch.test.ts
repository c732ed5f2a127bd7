import { Readable } from 'node:stream';
import { expect } from 'chai';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { z } from 'zod';
import { appError, requireExpectedVersion } from '#src/errors.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import {
  eventStreamAnswer,
  fileAnswer,
  noContentAnswer,
  okAnswer,
  okAnswerWithVersion,
} from '#src/http/response/answers.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

const things = { tag: 'things', summary: 'A thing of the tests' };
const thingId = '01890000-0000-7000-8000-000000000000';
const named = z.strictObject({ name: z.string() });
let name = 'first';
let version = 1;
let limitsOfLists: unknown[] = [];

const routes: HttpRoute[] = [
  defineRoute({
    ...things,
    method: 'get',
    path: '/things/:thing_id',
    operationId: 'getThing',
    access: 'user',
    params: z.strictObject({ thing_id: uuidPathParam('document_not_found') }),
    responses: { 200: { description: 'It', schema: named } },
    handle: () => okAnswerWithVersion({ name }, { version }),
  }),
  defineRoute({
    ...things,
    method: 'get',
    path: '/things/newest',
    operationId: 'getNewest',
    access: 'public',
    query: z.strictObject({ limit: z.coerce.number().int().max(9).default(3) }),
    responses: { 200: { description: 'Its limit', schema: z.strictObject({ limit: z.int() }) } },
    handle: ({ query }) => okAnswer({ limit: query.limit }),
  }),
  defineRoute({
    ...things,
    method: 'patch',
    path: '/things/:thing_id',
    operationId: 'renameThing',
    access: 'user',
    takesIfMatch: true,
    params: z.strictObject({ thing_id: uuidPathParam('document_not_found') }),
    body: named,
    responses: { 200: { description: 'It', schema: named } },
    handle: ({ body, expectedVersions }) => {
      requireExpectedVersion(expectedVersions, { version });
      version += 1;
      name = body.name;
      return okAnswer({ name });
    },
  }),
  defineRoute({
    ...things,
    method: 'delete',
    path: '/things/:thing_id',
    operationId: 'deleteThing',
    access: 'organization:administer',
    responses: { 204: { description: 'Gone' } },
    handle: () => noContentAnswer(),
  }),
  defineRoute({
    ...things,
    method: 'get',
    path: '/lists',
    operationId: 'getList',
    access: 'public',
    query: z.strictObject({ limit: z.coerce.number().default(3) }),
    responses: { 200: { description: 'Nothing', schema: z.strictObject({}) } },
    handle: ({ query }) => {
      limitsOfLists.push(query.limit);
      return okAnswer({});
    },
  }),
  ...(['post', 'put'] as const).map((method) =>
    defineRoute({
      ...things,
      method,
      path: '/lists',
      operationId: `${method}List`,
      access: 'public',
      responses: { 204: { description: 'Done' } },
      handle: () => noContentAnswer(),
    }),
  ),
  defineRoute({
    ...things,
    method: 'get',
    path: '/broken',
    operationId: 'getBroken',
    access: 'public',
    responses: { 204: { description: 'Never' } },
    handle: () => {
      throw new Error('a secret of ours');
    },
  }),
  defineRoute({
    ...things,
    method: 'get',
    path: '/events/:end',
    operationId: 'streamEvents',
    access: 'public',
    params: z.strictObject({ end: z.enum(['well', 'badly']) }),
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: ({ params }) =>
      eventStreamAnswer(async (events) => {
        await events.send({ id: '1:0', event: 'token', data: { t: 'two\nlines' } });
        if (params.end === 'badly') throw new Error('a secret of ours');
        await events.send({ id: '1:1', event: 'done', data: {} });
      }),
  }),
  defineRoute({
    ...things,
    method: 'get',
    path: '/file',
    operationId: 'getFile',
    access: 'public',
    responses: { 200: { description: 'Bytes', contentType: 'application/octet-stream' } },
    handle: () =>
      fileAnswer({
        fileName: 'Übersicht "1".txt',
        mediaType: 'text/html',
        sizeBytes: 10,
        etag: 'abc',
        open: async (range) =>
          Readable.from([Buffer.from('0123456789').subarray(range?.start, range && range.end + 1)]),
      }),
  }),
];

describe('the dispatcher', () => {
  let served: ServedRoutes;
  const actors: Record<string, { isOrgAdmin: boolean }> = {
    'Bearer user': { isOrgAdmin: false },
    'Bearer admin': { isOrgAdmin: true },
  };

  before(async () => {
    served = await serveRoutes(routes, {
      authenticate: async (authorization) => {
        const actor = actors[authorization ?? ''];
        if (actor === undefined) throw appError('invalid_token');
        const caller = { userId: 'u', orgId: 'o', teamIds: [], teamAdminOf: [], openTeamIds: [], ...actor };
        return { actor: caller, sessionId: 's', actorNow: async () => caller };
      },
    });
  });
  after(() => served.close());
  beforeEach(() => {
    limitsOfLists = [];
  });

  type Ask = { method?: string; headers?: Record<string, string>; body?: string };
  const ask = (path: string, { headers, ...init }: Ask = {}) =>
    fetch(`${served.baseUrl}${path}`, { ...init, headers: { authorization: 'Bearer user', ...headers } });
  const json = { 'content-type': 'application/json' };

  async function expectProblem(response: Response, code: string) {
    expect(response.headers.get('content-type')).to.contain('application/problem+json');
    const problem = problemSchema.parse(await response.json());
    expect(problem.code).to.equal(code);
    expect(problem.status).to.equal(response.status);
    expect(problem.request_id).to.equal(response.headers.get('x-request-id'));
    return problem;
  }

  it('accepts a body whose token expired during the upload, with the current rights of the sender', async () => {
    const actor = { userId: 'u', orgId: 'o', isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    let tokens = 1;
    let rights = async () => actor;
    const expiring = await serveRoutes(routes, {
      authenticate: async () => {
        tokens -= 1;
        if (tokens < 0) throw appError('invalid_token');
        return { actor, sessionId: 's', actorNow: () => rights() };
      },
    });
    const rename = () =>
      fetch(`${expiring.baseUrl}/things/${thingId}`, { method: 'PATCH', headers: json, body: '{"name":"slow"}' });
    expect((await rename()).status).equal(200);
    tokens = 1;
    rights = () => Promise.reject(appError('invalid_token'));
    expect((await rename()).status).equal(401);
    await expiring.close();
  });

  it('echoes a valid request id and replaces an invalid one', async () => {
    const given = await ask('/things/newest', { headers: { 'x-request-id': 'mine-1' } });
    expect(given.headers.get('x-request-id')).to.equal('mine-1');
    const odd = await ask('/things/newest', { headers: { 'x-request-id': 'a b{}' } });
    expect(odd.headers.get('x-request-id')).to.match(/^[0-9a-f-]{36}$/);
  });

  it('answers 401 without a token and 403 without the role', async () => {
    await expectProblem(await ask(`/things/${thingId}`, { headers: { authorization: '' } }), 'invalid_token');
    await expectProblem(await ask(`/things/${thingId}`, { method: 'DELETE' }), 'forbidden');
    const admin = { authorization: 'Bearer admin' };
    expect((await ask(`/things/${thingId}`, { method: 'DELETE', headers: admin })).status).to.equal(204);
  });

  it('answers 404 with the code of the resource for an id that is not a UUID', async () => {
    await expectProblem(await ask('/things/42'), 'document_not_found');
  });

  it('prefers a fixed path to a path with parameters', async () => {
    expect(await (await ask('/things/newest')).json()).to.deep.equal({ limit: 3 });
  });

  it('answers 405 with the allowed methods', async () => {
    const response = await ask('/things/newest', { method: 'DELETE' });
    await expectProblem(response, 'method_not_allowed');
    expect(response.headers.get('allow')).to.equal('GET, HEAD');
  });

  it('answers 400 for a badly encoded URL', async () => {
    await expectProblem(await ask('/things/%ff'), 'malformed_request');
  });

  it('answers 422 for invalid and unknown query fields', async () => {
    const problem = await expectProblem(await ask('/things/newest?limit=10&x=1'), 'validation_failed');
    expect(problem.errors?.map(({ path, code }) => [path, code])).to.deep.equal([
      ['x', 'unknown_field'],
      ['limit', 'too_big'],
    ]);
  });

  const rename = (body: string, headers: Record<string, string> = json) =>
    ask(`/things/${thingId}`, { method: 'PATCH', headers, body });

  it('answers 400, 413, 415 and 422 for invalid bodies', async () => {
    await expectProblem(await rename('{"name"'), 'malformed_request');
    await expectProblem(await rename('['.repeat(9_000) + ']'.repeat(9_000)), 'malformed_request');
    await expectProblem(await rename(JSON.stringify({ name: 'x'.repeat(1024 * 1024) })), 'payload_too_large');
    await expectProblem(await rename('{"name":"x"}', { 'content-type': 'text/plain' }), 'unsupported_media_type');
    await expectProblem(
      await rename('{"name":"x"}', { ...json, 'content-encoding': 'gzip' }),
      'unsupported_media_type',
    );
    await expectProblem(await rename('{"name":"a\\u0000b"}'), 'validation_failed');
    await expectProblem(await rename('{"name":"x","__proto__":{}}'), 'validation_failed');
    await expectProblem(await rename(''), 'validation_failed');
  });

  it('answers 304 for the current ETag, and 412 for an outdated one', async () => {
    const etag = (await ask(`/things/${thingId}`)).headers.get('etag') ?? '';
    expect((await ask(`/things/${thingId}`, { headers: { 'if-none-match': etag } })).status).to.equal(304);
    expect((await rename('{"name":"second"}', { ...json, 'if-match': etag })).status).to.equal(200);
    await expectProblem(await rename('{"name":"third"}', { ...json, 'if-match': etag }), 'precondition_failed');
    expect(name).to.equal('second');
  });

  it('ignores If-Match on requests that change nothing', async () => {
    const odd = { 'if-match': '"old"' };
    expect((await ask(`/things/${thingId}`, { headers: odd })).status).to.equal(200);
    expect((await ask('/lists', { headers: odd })).status).to.equal(200);
    expect((await ask('/lists', { method: 'POST', headers: odd })).status).to.equal(204);
    expect(limitsOfLists).to.deep.equal([3]);
  });

  it('answers 412 to If-Match on a PUT of a resource without a version, unless it is *', async () => {
    for (const odd of ['"old"', '"1.old"', 'nonsense', '']) {
      const headers = { 'if-match': odd };
      await expectProblem(await ask('/lists', { method: 'PUT', headers }), 'precondition_failed');
    }
    expect((await ask('/lists', { method: 'PUT', headers: { 'if-match': ' * ' } })).status).to.equal(204);
    expect(limitsOfLists).to.deep.equal([]);
  });

  it('does not reveal the cause of a 500', async () => {
    const problem = await expectProblem(await ask('/broken'), 'internal_error');
    expect(JSON.stringify(problem)).not.to.contain('secret');
  });

  async function readEvents(response: Response): Promise<EventSourceMessage[]> {
    const events: EventSourceMessage[] = [];
    createParser({ onEvent: (event) => events.push(event) }).feed(await response.text());
    return events;
  }

  it('streams events with their ids', async () => {
    const response = await ask('/events/well');
    expect(response.headers.get('content-type')).to.contain('text/event-stream');
    expect(response.headers.get('cache-control')).to.equal('no-store');
    expect(await readEvents(response)).to.deep.equal([
      { id: '1:0', event: 'token', data: '{"t":"two\\nlines"}' },
      { id: '1:1', event: 'done', data: '{}' },
    ]);
  });

  it('ends a failed stream with one error event that does not reveal the cause', async () => {
    const events = await readEvents(await ask('/events/badly'));
    expect(events.map(({ event }) => event)).to.deep.equal(['token', 'error']);
    expect(events[1]?.data).not.to.contain('secret');
  });

  it('sends a file as a sandboxed attachment', async () => {
    const response = await ask('/file');
    expect(await response.text()).to.equal('0123456789');
    expect(response.headers.get('content-disposition')).to.equal(
      `attachment; filename="_bersicht _1_.txt"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.txt`,
    );
    expect(response.headers.get('content-security-policy')).to.contain('sandbox');
  });

  it('sends the requested byte range unless the file has changed', async () => {
    const part = await ask('/file', { headers: { range: 'bytes=2-4', 'if-range': '"abc"' } });
    expect([part.status, part.headers.get('content-range'), await part.text()]).to.deep.equal([
      206,
      'bytes 2-4/10',
      '234',
    ]);
    const whole = await ask('/file', { headers: { range: 'bytes=2-4', 'if-range': '"old"' } });
    expect([whole.status, await whole.text()]).to.deep.equal([200, '0123456789']);
    const none = await ask('/file', { headers: { range: 'bytes=20-' } });
    expect(none.headers.get('content-range')).to.equal('bytes */10');
    await expectProblem(none, 'range_not_satisfiable');
  });
});

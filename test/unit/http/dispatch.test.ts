import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { z } from 'zod';
import { eventStreamAnswer, fileAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import type { ServerSentEventSink } from '#src/http/response/event-streams.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { done, routeAt, type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

const empty = { responses: done, handle: () => noContentAnswer() };
const routes: HttpRoute[] = [
  defineRoute({
    ...routeAt('get', '/things/:thing_id'),
    access: 'public',
    responses: { 200: { description: 'It', schema: z.strictObject({}) } },
    handle: () => okAnswer({}),
  }),
  defineRoute({ ...routeAt('get', '/things/newest'), access: 'public', ...empty }),
  defineRoute({
    ...routeAt('patch', '/things/:thing_id'),
    ...{ access: 'user', body: z.strictObject({ name: z.string() }), ...empty },
  }),
  defineRoute({
    ...routeAt('get', '/sign-in'),
    access: 'public',
    isSafe: false,
    responses: done,
    handle: () => noContentAnswer(),
  }),
  defineRoute({
    ...routeAt('get', '/broken'),
    access: 'public',
    responses: done,
    handle: () => {
      throw new Error('a secret of ours');
    },
  }),
  defineRoute({
    ...routeAt('get', '/file'),
    access: 'public',
    responses: { 200: { description: 'Bytes', contentType: 'application/octet-stream' } },
    handle: () =>
      fileAnswer({
        ...{ fileName: 'Übersicht "1".txt', mediaType: 'text/html', sizeBytes: 10, etag: 'abc' },
        open: async (range) =>
          Readable.from([Buffer.from('0123456789').subarray(range?.start, range && range.end + 1)]),
      }),
  }),
];

describe('the dispatcher', () => {
  let served: ServedRoutes;
  before(async () => {
    served = await serveRoutes(routes);
  });
  after(() => served.close());

  type Request = { method?: string; headers?: Record<string, string>; body?: string };
  const ask = (path: string, init: Request = {}) => fetch(`${served.baseUrl}${path}`, init);
  const json = { 'content-type': 'application/json' };
  const rename = (body: string, headers: Record<string, string> = json) =>
    ask('/things/1', { method: 'PATCH', headers, body });

  async function expectProblem(response: Response, code: string) {
    expect(response.headers.get('content-type')).contain('application/problem+json');
    const problem = problemSchema.parse(await response.json());
    const requestId = response.headers.get('x-request-id');
    expect(problem).include({ code, status: response.status, request_id: requestId });
    return problem;
  }

  it('echoes a valid request id and replaces an invalid one', async () => {
    const idOf = async (id: string) =>
      (await ask('/things/newest', { headers: { 'x-request-id': id } })).headers.get('x-request-id');
    expect(await idOf('mine-1')).equal('mine-1');
    expect(await idOf('a b{}')).match(/^[0-9a-f-]{36}$/);
  });

  it('prefers a fixed path to a path with parameters, and answers 405 with the allowed methods, also to HEAD of an unsafe GET', async () => {
    expect((await ask('/things/newest')).status).equal(204);
    const response = await ask('/things/newest', { method: 'DELETE' });
    await expectProblem(response, 'method_not_allowed');
    expect(response.headers.get('allow')).equal('GET, HEAD');
    const scanned = await ask('/sign-in', { method: 'HEAD' });
    expect([scanned.status, scanned.headers.get('allow')]).deep.equal([405, 'GET']);
    // If-Match is ignored on requests that change nothing.
    expect((await ask('/things/newest', { headers: { 'if-match': '"old"' } })).status).equal(204);
  });

  it('rejects bodies and URLs that are malformed, too large or of another type', async () => {
    const refused: Record<string, [code: string, body: string, headers?: Record<string, string>]> = {
      'deep nesting': ['malformed_request', '['.repeat(9_000) + ']'.repeat(9_000)],
      'more than 1 MiB': ['payload_too_large', JSON.stringify({ name: 'x'.repeat(1024 * 1024) })],
      'another encoding': ['unsupported_media_type', '{"name":"x"}', { ...json, 'content-encoding': 'gzip' }],
      'a NUL': ['validation_failed', '{"name":"a\\u0000b"}'],
      'a prototype': ['validation_failed', '{"name":"x","__proto__":{}}'],
      nothing: ['validation_failed', ''],
    };
    for (const [code, ...sent] of Object.values(refused)) await expectProblem(await rename(...sent), code);
    await expectProblem(await ask('/things/%ff'), 'malformed_request');
  });

  it('does not reveal the cause of a 500', async () => {
    const problem = await expectProblem(await ask('/broken'), 'internal_error');
    expect(JSON.stringify(problem)).not.contain('secret');
  });

  it('sends a byte range unless the file has changed, and escapes the file name in the header', async () => {
    const rangeOf = (etag: string) => ask('/file', { headers: { range: 'bytes=2-4', 'if-range': etag } });
    const [whole, part] = [await rangeOf('"old"'), await rangeOf('"abc"')];
    expect([whole.status, await whole.text(), part.status, await part.text()]).deep.equal([
      200,
      '0123456789',
      206,
      '234',
    ]);
    expect(whole.headers.get('content-disposition')).equal(
      `attachment; filename="_bersicht _1_.txt"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.txt`,
    );
  });
});

describe('an open event stream', () => {
  let served: ServedRoutes;
  let left: PromiseWithResolvers<void>;
  let sentAfterwards: PromiseWithResolvers<void>;
  let activeSessions: (ids: readonly string[]) => Promise<ReadonlySet<string>>;

  const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve));
  const aStream = (
    path: string,
    run: (events: ServerSentEventSink, signal: AbortSignal) => Promise<void>,
    isWatch = false,
  ) =>
    defineRoute({
      ...routeAt('get', path),
      access: 'user',
      responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
      handle: ({ signal }) => eventStreamAnswer((events) => run(events, signal), { isWatch }),
    });
  const endlessly = async (events: ServerSentEventSink, signal: AbortSignal) => {
    await events.send({ event: 'token', data: {} });
    await aborted(signal);
    left.resolve();
    await events.send({ event: 'done', data: {} });
    sentAfterwards.resolve();
  };
  const watch = async (events: ServerSentEventSink) => {
    await events.send({ event: 'progress', data: {} });
    await aborted(events.closed);
    left.resolve();
  };
  const routes = [
    aStream('/endless', endlessly),
    aStream('/watch', watch, true),
    { ...aStream('/public', endlessly), access: 'public' } as const,
    aStream('/large', (events) => events.send({ event: 'done', data: 'x'.repeat(8 * 1024 ** 2) })),
  ];

  beforeEach(async () => {
    activeSessions = async (ids) => new Set(ids);
    [left, sentAfterwards] = [Promise.withResolvers(), Promise.withResolvers()];
    served = await serveRoutes(routes, {
      activeSessions: (ids) => activeSessions(ids),
    });
  });
  afterEach(() => served.close());

  const open = (path: string, signal?: AbortSignal) => fetch(`${served.baseUrl}${path}`, { ...(signal && { signal }) });
  const eventsOf = async (response: Response) =>
    [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);

  it('signals the handler when the client disconnects, and lets it finish', async () => {
    for (const path of ['/watch', '/endless']) {
      const leaving = new AbortController();
      const response = await open(path, leaving.signal);
      await response.body?.getReader().read();
      leaving.abort();
      await left.promise;
      left = Promise.withResolvers();
    }
    await sentAfterwards.promise;
  });

  it('ends with an error event after the shutdown timeout, or at once if the stream only watches a state', async () => {
    await served.streams.drain(60_000);
    const watch = await open('/watch');
    await served.streams.drain(60_000);
    await left.promise;
    expect(await eventsOf(watch)).deep.equal(['progress', 'error']);
    const endless = await open('/endless');
    await served.streams.drain(10);
    expect(await eventsOf(endless)).deep.equal(['token', 'error']);
  });

  it('ends with an error event when its session ends, and survives an outage of the database', async () => {
    const ofNobody = await open('/public');
    const response = await open('/endless');
    let looks = 0;
    activeSessions = async () => {
      looks += 1;
      if (looks < 3) throw new Error('no database');
      return new Set();
    };
    expect(await eventsOf(response)).deep.equal(['token', 'error']);
    expect(looks).equal(3);
    await served.streams.drain(10);
    expect(await ofNobody.text()).contain('server restarting');
  });

  it('does not delay a shutdown if its client disconnected before the stream opened', async () => {
    const stream = served.streams.open({ destroyed: true } as ServerResponse);
    await stream.send({ event: 'done', data: {} });
    expect([served.streams.count(), stream.closed.aborted]).deep.equal([0, true]);
    await served.streams.drain(60_000);
  });

  it('delivers an event of any size', async () => {
    expect(await (await open('/large')).text()).match(/x"\n\n$/);
  });
});

import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { z } from 'zod';
import { eventStreamAnswer, fileAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import type { ServerSentEventSink } from '#src/http/response/event-streams.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { done, routeAt, type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

const empty = { access: 'public', responses: done, handle: () => noContentAnswer() } as const;
const routes: HttpRoute[] = [
  defineRoute({
    ...routeAt('get', '/things/:thing_id'),
    access: 'public',
    responses: { 200: { description: 'It', schema: z.strictObject({}) } },
    handle: () => okAnswer({}),
  }),
  defineRoute({ ...routeAt('get', '/things/newest'), ...empty }),
  defineRoute({ ...routeAt('get', '/things/:thing_id/parts'), ...empty }),
  defineRoute({
    ...routeAt('patch', '/things/:thing_id'),
    ...empty,
    access: 'user',
    body: z.strictObject({ name: z.string() }),
  }),
  defineRoute({ ...routeAt('get', '/sign-in'), ...empty, isSafe: false }),
  defineRoute({
    ...routeAt('get', '/broken'),
    ...empty,
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
        fileName: 'Übersicht "1".txt',
        mediaType: 'text/plain',
        sizeBytes: 10,
        etag: 'abc',
        open: async ({ start, end } = { start: 0, end: 9 }) => Readable.from(['0123456789'.slice(start, end + 1)]),
      }),
  }),
];

describe('the dispatcher', () => {
  let served: ServedRoutes;
  before(async () => {
    served = await serveRoutes(routes);
  });
  after(() => served.close());

  const ask = (path: string, init: RequestInit = {}) => fetch(`${served.baseUrl}${path}`, init);
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

  it('prefers a fixed path to a parameter; rejects other methods with 405, also HEAD if GET has effects', async () => {
    expect((await ask('/things/newest')).status).equal(204);
    for (const path of ['/things/newest/', '/things/newest/parts']) expect((await ask(path)).status).equal(204);
    expect((await ask('/things//parts')).status).equal(404);
    const response = await ask('/things/newest', { method: 'DELETE' });
    await expectProblem(response, 'method_not_allowed');
    expect(response.headers.get('allow')).equal('GET, HEAD');
    const scanned = await ask('/sign-in', { method: 'HEAD' });
    expect([scanned.status, scanned.headers.get('allow')]).deep.equal([405, 'GET']);
    // If-Match is ignored on requests that change nothing.
    expect((await ask('/things/newest', { headers: { 'if-match': '"old"' } })).status).equal(204);
  });

  it('rejects bodies and URLs that are malformed, too large or of another type', async () => {
    const refused: [code: string, body: string, headers?: Record<string, string>][] = [
      ['malformed_request', '['.repeat(9_000) + ']'.repeat(9_000)],
      ['payload_too_large', JSON.stringify({ name: 'x'.repeat(1024 * 1024) })],
      ['unsupported_media_type', '{"name":"x"}', { ...json, 'content-encoding': 'gzip' }],
      ['validation_failed', '{"name":"a\\u0000b"}'],
      ['validation_failed', '{"name":"x","__proto__":{}}'],
      ['validation_failed', ''],
    ];
    for (const [code, ...sent] of refused) await expectProblem(await rename(...sent), code);
    await expectProblem(await ask('/things/%ff'), 'malformed_request');
  });

  it('does not reveal the cause of a 500', async () => {
    const problem = await expectProblem(await ask('/broken'), 'internal_error');
    expect(JSON.stringify(problem)).not.contain('secret');
  });

  it('sends a byte range unless the file has changed, and escapes the file name in the header', async () => {
    for (const [etag, status, content] of [
      ['"old"', 200, '0123456789'],
      ['"abc"', 206, '234'],
    ] as const) {
      const response = await ask('/file', { headers: { range: 'bytes=2-4', 'if-range': etag } });
      expect([response.status, await response.text()]).deep.equal([status, content]);
      const disposition = `attachment; filename="_bersicht _1_.txt"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.txt`;
      expect(response.headers.get('content-disposition')).equal(disposition);
    }
  });
});

describe('an open event stream', () => {
  let served: ServedRoutes;
  let left: PromiseWithResolvers<void>;
  let sentAfterwards: PromiseWithResolvers<void>;
  let activeSessions: (ids: readonly string[]) => Promise<ReadonlySet<string>>;

  const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve));
  type Run = (events: ServerSentEventSink, signal: AbortSignal) => Promise<void>;
  const aStream = (path: string, run: Run, isWatch = false) =>
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
    aStream('/large', (events) => events.send({ event: 'done', data: { text: 'x'.repeat(8 * 1024 ** 2) } })),
  ];

  beforeEach(async () => {
    activeSessions = async (ids) => new Set(ids);
    [left, sentAfterwards] = [Promise.withResolvers(), Promise.withResolvers()];
    served = await serveRoutes(routes, { activeSessions: (ids) => activeSessions(ids) });
  });
  afterEach(() => served.close());

  const open = (path: string, init: RequestInit = {}) => fetch(`${served.baseUrl}${path}`, init);
  const eventsOf = async (response: Response) =>
    [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);

  it('signals the handler when the client disconnects, and lets it finish', async () => {
    for (const path of ['/watch', '/endless']) {
      const leaving = new AbortController();
      const response = await open(path, { signal: leaving.signal });
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
    const withoutSession = await open('/public');
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
    expect(await withoutSession.text()).contain('server restarting');
  });

  it('does not delay a shutdown if its client disconnected before the stream opened', async () => {
    const stream = served.streams.open({ destroyed: true } as ServerResponse);
    await stream.send({ event: 'done', data: {} });
    expect([served.streams.count(), stream.closed.aborted]).deep.equal([0, true]);
    await served.streams.drain(60_000);
  });

  it('delivers an event of any size', async () => {
    expect(await (await open('/large')).text()).match(/x"}\n\n$/);
  });
});

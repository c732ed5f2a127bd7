import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { z } from 'zod';
import { noContentAnswer } from '#src/http/response/answers.ts';
import { createConcurrencyLimiter } from '#src/http/routing/request-limits.ts';
import { defineRoute, multipartBody } from '#src/http/routing/route.ts';
import { done, routeAt, type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nsome bytes';
const end = '\r\n--b--\r\n';

describe('concurrent uploads by a user', () => {
  let served: ServedRoutes;
  const open: ClientRequest[] = [];
  let arrived = 0;
  const fetching = Promise.withResolvers<void>();

  const facts = { access: 'user', responses: done } as const;
  const form = multipartBody({
    fields: z.strictObject({}),
    store: async (_actor, { fileName, content }) => {
      arrived += 1;
      return { fileName, sha256: await text(content) };
    },
    discard: async () => {},
  });
  const fetched = async () => {
    arrived += 1;
    await fetching.promise;
    return noContentAnswer();
  };
  const body = z.looseObject({});
  const handle = () => noContentAnswer();
  before(async () => {
    const routes = [
      defineRoute({ ...routeAt('post', '/uploads'), ...facts, body: form, handle }),
      defineRoute({ ...routeAt('post', '/large-json'), ...facts, body, bodyLimitBytes: 8_000_000, handle }),
      defineRoute({ ...routeAt('post', '/fetched'), ...facts, body, fetchesFile: true, handle: fetched }),
    ];
    served = await serveRoutes(routes, { uploadLimit: { perUser: 2, perOrganization: 9 } });
  });
  after(() => served.close());
  afterEach(() => {
    for (const req of open) req.destroy();
  });

  function begin(path: string) {
    const type = path === '/uploads' ? 'multipart/form-data; boundary=b' : 'application/json';
    const init = { method: 'POST', headers: { 'content-type': type } };
    const req = request(served.baseUrl + path, init).on('error', () => {});
    open.push(req);
    return { req, answer: new Promise<IncomingMessage>((resolve) => req.once('response', resolve)) };
  }
  async function finish({ req, answer }: ReturnType<typeof begin>, rest: string): Promise<number | undefined> {
    req.end(rest);
    const { statusCode, headers } = await answer;
    if (statusCode === 429) expect(headers).include({ 'retry-after': '5' });
    return statusCode;
  }
  const ask = (path: string) => finish(begin(path), path === '/uploads' ? head + end : '{}');

  /** Begins two requests, which do not end before the test ends them. */
  async function hold(path: string) {
    const expected = arrived + 2;
    const held = [begin(path), begin(path)];
    for (const { req } of held) path === '/uploads' ? req.write(head) : req.end('{}');
    await until('both have arrived', async () => arrived === expected);
    return held;
  }

  it('answer 429 above a limit that includes large JSON bodies and files that the service downloads', async () => {
    const uploads = await hold('/uploads');
    for (const path of ['/uploads', '/large-json', '/fetched']) expect(await ask(path), path).equal(429);
    for (const upload of uploads) expect(await finish(upload, end)).equal(204);
    expect(await ask('/uploads')).equal(204);
    const fetches = await hold('/fetched');
    expect(await ask('/uploads')).equal(429);
    fetching.resolve();
    for (const { answer } of fetches) expect((await answer).statusCode).equal(204);
    for (const path of ['/uploads', '/large-json', '/fetched']) expect(await ask(path), path).equal(204);
  });

  it('release their slots when the client disconnects', async () => {
    for (const { req } of await hold('/uploads')) req.destroy();
    await until('a slot is free', async () => (await ask('/uploads')) === 204);
  });
});

describe('the limits for concurrent uploads and event streams', () => {
  it('reject with 503 above 256 uploads of a process, the last 64 for organizations with fewer than four', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (userId: string, orgId: string) => concurrency.take('uploads', { userId, orgId });
    const refusal = { message: 'This server has too many uploads open.', code: 'service_unavailable' };
    const expectRefusal = (userId: string, orgId: string) => {
      expect(() => take(userId, orgId))
        .throw()
        .include(refusal);
    };
    const [first] = Array.from({ length: 192 }, (_, n) => take(`user ${n % 4}`, `organization ${n % 4}`));
    expectRefusal('user 0', 'organization 0');
    for (let n = 0; n < 4; n += 1) take('ada', 'acme');
    expectRefusal('ada', 'acme');
    // With 196 open uploads, the end of one frees no slot for an organization that already has many.
    first?.();
    expectRefusal('user 0', 'organization 0');
    const others = Array.from({ length: 61 }, (_, n) => take(`other ${n}`, `small organization ${n}`));
    expectRefusal('grace', 'another');
    others[0]?.();
    take('grace', 'another');
  });

  it('reject with 503 above 3,750 event streams of an organization, even without limits per user', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (orgId: string) => concurrency.take('streams', { userId: `user of ${orgId}`, orgId });
    for (let n = 0; n < 3_750; n += 1) take('acme');
    expect(() => take('acme')).throw('This server has too many event streams open.');
    take('other');
  });
});

import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { buffer, text } from 'node:stream/consumers';
import { expect } from 'chai';
import { z } from 'zod';
import { noContentAnswer } from '#src/http/response/answers.ts';
import { createConcurrencyLimiter } from '#src/http/routing/request-limits.ts';
import { defineRoute, multipartBody } from '#src/http/routing/route.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nsome bytes';
const end = '\r\n--b--\r\n';

describe('concurrent uploads', () => {
  let served: ServedRoutes;
  let open: ClientRequest[];
  /** Resolves when this many files have begun to arrive. */
  let begun: PromiseWithResolvers<void>;
  let expectedFiles = 0;

  const upload = defineRoute({
    method: 'post',
    path: '/uploads',
    operationId: 'upload',
    tag: 'uploads',
    summary: 'A form of the tests',
    access: 'user',
    body: multipartBody({
      fields: z.strictObject({}),
      store: async (_actor, { fileName, content }) => {
        expectedFiles -= 1;
        if (expectedFiles === 0) begun.resolve();
        return { fileName, sha256: String((await buffer(content)).length) };
      },
      discard: async () => {},
    }),
    responses: { 204: { description: 'Stored' } },
    handle: () => noContentAnswer(),
  });
  const large = defineRoute({
    method: 'post',
    path: '/large',
    operationId: 'large',
    tag: 'uploads',
    summary: 'Large JSON of the tests',
    access: 'user',
    body: z.looseObject({}),
    bodyLimitBytes: 8_000_000,
    responses: { 204: { description: 'Read' } },
    handle: () => noContentAnswer(),
  });

  let fetching = Promise.withResolvers<void>();
  const fetched = defineRoute({
    method: 'post',
    path: '/fetched',
    operationId: 'fetched',
    tag: 'uploads',
    summary: 'A file that the handler fetches',
    access: 'user',
    fetchesFile: true,
    body: z.strictObject({}),
    responses: { 204: { description: 'Fetched' } },
    handle: async () => {
      expectedFiles -= 1;
      if (expectedFiles === 0) begun.resolve();
      await fetching.promise;
      return noContentAnswer();
    },
  });

  before(async () => {
    served = await serveRoutes([upload, large, fetched], {
      // The token names the user and the organization.
      authenticate: async (authorization) => {
        const [userId = '', orgId = ''] = (authorization ?? '').split('@');
        const actor = { userId, orgId, isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
        return { actor, sessionId: 's', actorNow: async () => actor };
      },
      uploadLimit: { perUser: 2, perOrganization: 3 },
    });
  });
  after(() => served.close());
  beforeEach(() => {
    open = [];
  });
  afterEach(() => {
    for (const req of open) req.destroy();
  });

  function begin(who: string, path = '/uploads', type = 'multipart/form-data; boundary=b') {
    const headers = { authorization: who, 'content-type': type };
    const req = request(served.baseUrl + path, { method: 'POST', headers }).on('error', () => {});
    open.push(req);
    const answer = new Promise<IncomingMessage>((resolve) => req.once('response', resolve));
    return { req, answer };
  }

  /** Uploads that have begun and never end. */
  async function hold(...callers: string[]) {
    begun = Promise.withResolvers();
    expectedFiles = callers.length;
    const held = callers.map((who) => begin(who));
    for (const { req } of held) req.write(head);
    await begun.promise;
    return held;
  }

  async function answerTo(who: string): Promise<{ status: number | undefined; problem: { code?: string } }> {
    const { req, answer } = begin(who);
    req.end(head + end);
    const { statusCode: status, headers } = await answer;
    if (status === 429) expect(headers).include({ 'retry-after': '5' });
    const body = await text(await answer);
    return { status, problem: body === '' ? {} : JSON.parse(body) };
  }

  it('are rejected with 429 above the limit of the user; running uploads continue', async () => {
    const held = await hold('ada@acme', 'ada@acme');
    expect(await answerTo('ada@acme')).deep.include({ status: 429 });
    expect(await answerTo('grace@acme')).deep.include({ status: 204 });
    for (const { req, answer } of held) {
      req.end(end);
      expect((await answer).statusCode).equal(204);
    }
    expect(await answerTo('ada@acme')).deep.include({ status: 204 });
  });

  it('are rejected with 429 above the limit of the organization', async () => {
    await hold('ada@acme', 'ada@acme', 'grace@acme');
    const { status, problem } = await answerTo('lin@acme');
    expect({ status, code: problem.code }).deep.equal({ status: 429, code: 'rate_limited' });
    expect(await answerTo('alan@other')).deep.include({ status: 204 });
  });

  it('are rejected with 503 above the limit of the process', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (n: number) => concurrency.take('uploads', { userId: `user ${n}`, orgId: `organization ${n}` });
    const [first] = Array.from({ length: 256 }, (_, n) => take(n));
    expect(() => take(256))
      .throw('This server has too many uploads open.')
      .include({ code: 'service_unavailable' });
    first?.();
    take(256);
  });

  it('leave the last quarter of the slots to organizations with fewer than four uploads', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (user: string, orgId: string) => concurrency.take('uploads', { userId: user, orgId });
    const [first] = Array.from({ length: 192 }, (_, n) => take(`user ${n % 4}`, `organization ${n % 4}`));
    const refusal = 'This server has too many uploads open.';
    expect(() => take('user 0', 'organization 0')).throw(refusal);
    for (let n = 0; n < 4; n += 1) take('ada', 'acme');
    expect(() => take('ada', 'acme')).throw(refusal);
    take('grace', 'other');
    // With 196 open uploads, the end of one frees no slot for an organization that already has many.
    first?.();
    expect(() => take('user 0', 'organization 0')).throw(refusal);
  });

  it('have a limit per process even if limits per user are disabled', () => {
    const concurrency = createConcurrencyLimiter({ requests: null, streams: null });
    const take = (orgId: string) => concurrency.take('streams', { userId: `user of ${orgId}`, orgId });
    for (let n = 0; n < 3_750; n += 1) take('acme');
    expect(() => take('acme')).throw('This server has too many event streams open.');
    take('other');
  });

  it('free their slots when the client disconnects', async () => {
    const held = await hold('ada@acme', 'ada@acme');
    for (const { req } of held) req.destroy();
    let status: number | undefined = 429;
    while (status === 429) ({ status } = await answerTo('ada@acme'));
    expect(status).equal(204);
  });

  it('count together with files that the service downloads', async () => {
    begun = Promise.withResolvers();
    fetching = Promise.withResolvers();
    expectedFiles = 2;
    const begunFetches = [1, 2].map(() => begin('ada@acme', '/fetched', 'application/json'));
    for (const { req } of begunFetches) req.end('{}');
    await begun.promise;
    const third = begin('ada@acme', '/fetched', 'application/json');
    third.req.end('{}');
    expect((await third.answer).statusCode).equal(429);
    expect(await answerTo('ada@acme')).deep.include({ status: 429 });
    fetching.resolve();
    for (const { answer } of begunFetches) expect((await answer).statusCode).equal(204);
    expect(await answerTo('ada@acme')).deep.include({ status: 204 });
  });

  it('count together with requests with large JSON bodies', async () => {
    await hold('ada@acme', 'ada@acme');
    const { req, answer } = begin('ada@acme', '/large', 'application/json');
    req.end('{}');
    expect((await answer).statusCode).equal(429);
  });
});

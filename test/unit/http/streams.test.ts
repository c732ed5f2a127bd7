import { expect } from 'chai';
import type { BearerAuthenticator } from '#src/http/request/authentication.ts';
import { eventStreamAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

describe('an open event stream', () => {
  let served: ServedRoutes;
  let left = Promise.withResolvers<void>();
  let sentAfterwards = Promise.withResolvers<void>();

  const endless = defineRoute({
    method: 'get',
    path: '/endless',
    operationId: 'streamEndlessly',
    tag: 'streams',
    summary: 'A stream that only its client ends',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: ({ signal }) =>
      eventStreamAnswer(async (events) => {
        await events.send({ event: 'token', data: {} });
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        left.resolve();
        await events.send({ event: 'done', data: {} });
        sentAfterwards.resolve();
      }),
  });

  let begun = Promise.withResolvers<void>();
  const late = defineRoute({
    method: 'get',
    path: '/late',
    operationId: 'streamLate',
    tag: 'streams',
    summary: 'A stream that opens when its client has left',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: async ({ signal }) => {
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return eventStreamAnswer(async (events) => {
        await events.send({ event: 'done', data: {} });
        sentAfterwards.resolve();
      });
    },
  });

  const watch = defineRoute({
    method: 'get',
    path: '/watch',
    operationId: 'watchEndlessly',
    tag: 'streams',
    summary: 'A stream that tells what happens elsewhere',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: () =>
      eventStreamAnswer(
        async (events) => {
          await events.send({ event: 'progress', data: {} });
          await new Promise((resolve) => events.closed.addEventListener('abort', resolve));
          left.resolve();
        },
        { isWatch: true },
      ),
  });

  const large = defineRoute({
    method: 'get',
    path: '/large',
    operationId: 'streamLarge',
    tag: 'streams',
    summary: 'One event that is larger than what may pile up',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: () => eventStreamAnswer((events) => events.send({ event: 'done', data: 'x'.repeat(8 * 1024 ** 2) })),
  });

  const guarded: HttpRoute = { ...endless, path: '/guarded', operationId: 'streamGuarded', access: 'user' };
  const actor = { userId: 'u', orgId: 'o', isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
  const authenticate: BearerAuthenticator = async (authorization) => ({
    actor,
    sessionId: authorization ?? '',
    actorNow: async () => actor,
  });
  let activeSessions: (ids: readonly string[]) => Promise<ReadonlySet<string>>;
  const eventsOf = async (response: Response) =>
    [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);

  beforeEach(async () => {
    activeSessions = async (ids) => new Set(ids);
    begun = Promise.withResolvers();
    left = Promise.withResolvers();
    sentAfterwards = Promise.withResolvers();
    served = await serveRoutes([endless, watch, late, large, guarded], {
      authenticate,
      activeSessions: (ids) => activeSessions(ids),
    });
  });
  afterEach(() => served.close());

  it('signals the handler when the client disconnects, and lets it finish', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${served.baseUrl}/endless`, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await left.promise;
    await sentAfterwards.promise;
  });

  it('ends with an error event when the server shuts down', async () => {
    const response = await fetch(`${served.baseUrl}/endless`);
    await served.streams.drain(10);
    const events = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);
    expect(events).to.deep.equal(['token', 'error']);
  });

  it('ends immediately on a shutdown if it is a watch', async () => {
    const response = await fetch(`${served.baseUrl}/watch`);
    await served.streams.drain(60_000);
    await left.promise;
    const events = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);
    expect(events).to.deep.equal(['progress', 'error']);
  });

  it('signals a watch when its client disconnects', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${served.baseUrl}/watch`, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await left.promise;
  });

  it('ends with an error event when its session ends; other streams continue', async () => {
    const leaving = new AbortController();
    const open = (session: string, signal?: AbortSignal) =>
      fetch(`${served.baseUrl}/guarded`, { headers: { authorization: session }, ...(signal && { signal }) });
    const ended = await open('a');
    const going = await open('b', leaving.signal);
    const anybodys = await fetch(`${served.baseUrl}/endless`, { signal: leaving.signal });
    const asked: string[][] = [];
    const looks = Promise.withResolvers<void>();
    activeSessions = async (ids) => {
      asked.push(ids.toSorted());
      if (asked.length > 3) looks.resolve();
      return new Set(['b']);
    };
    expect(await eventsOf(ended)).to.deep.equal(['token', 'error']);
    await looks.promise;
    expect([asked[0], asked.at(-1)]).to.deep.equal([['a', 'b'], ['b']]);
    for (const { body } of [going, anybodys]) {
      const { value } = (await body?.getReader().read()) ?? {};
      expect(new TextDecoder().decode(value)).not.to.contain('event: error');
    }
    leaving.abort();
  });

  it('survives an outage of the database', async () => {
    const response = await fetch(`${served.baseUrl}/guarded`, { headers: { authorization: 'a' } });
    let looks = 0;
    activeSessions = async () => {
      looks += 1;
      if (looks < 3) throw new Error('no database');
      return new Set();
    };
    expect(await eventsOf(response)).to.deep.equal(['token', 'error']);
    expect(looks).to.equal(3);
  });

  it('does not delay a shutdown if its client disconnected before it opened', async () => {
    const leaving = new AbortController();
    const response = fetch(`${served.baseUrl}/late`, { signal: leaving.signal }).catch(() => undefined);
    await begun.promise;
    leaving.abort();
    await Promise.all([response, sentAfterwards.promise]);
    await served.streams.drain(60_000);
  });

  it('delivers an event of any size', async () => {
    const text = await (await fetch(`${served.baseUrl}/large`)).text();
    expect(text).to.match(/x"\n\n$/);
  });

  it('does not delay a shutdown when no stream is open', () => served.streams.drain(60_000));
});

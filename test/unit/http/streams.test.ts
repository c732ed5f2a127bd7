import { expect } from 'chai';
import { eventStream } from '#src/http/answers.ts';
import { route } from '#src/http/route.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

describe('an open event stream', () => {
  let served: ServedRoutes;
  let left = Promise.withResolvers<void>();
  let sentAfterwards = Promise.withResolvers<void>();

  const endless = route({
    method: 'get',
    path: '/endless',
    operationId: 'streamEndlessly',
    tag: 'streams',
    summary: 'A stream that only its client ends',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: ({ signal }) =>
      eventStream(async (events) => {
        await events.send({ event: 'token', data: {} });
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        left.resolve();
        await events.send({ event: 'done', data: {} });
        sentAfterwards.resolve();
      }),
  });

  let begun = Promise.withResolvers<void>();
  const late = route({
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
      return eventStream(async (events) => {
        await events.send({ event: 'done', data: {} });
        sentAfterwards.resolve();
      });
    },
  });

  const watch = route({
    method: 'get',
    path: '/watch',
    operationId: 'watchEndlessly',
    tag: 'streams',
    summary: 'A stream that tells what happens elsewhere',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: () =>
      eventStream(
        async (events) => {
          await events.send({ event: 'progress', data: {} });
          await new Promise((resolve) => events.closed.addEventListener('abort', resolve));
          left.resolve();
        },
        { isWatch: true },
      ),
  });

  const large = route({
    method: 'get',
    path: '/large',
    operationId: 'streamLarge',
    tag: 'streams',
    summary: 'One event that is larger than what may pile up',
    access: 'public',
    responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
    handle: () => eventStream((events) => events.send({ event: 'done', data: 'x'.repeat(8 * 1024 ** 2) })),
  });

  beforeEach(async () => {
    begun = Promise.withResolvers();
    left = Promise.withResolvers();
    sentAfterwards = Promise.withResolvers();
    served = await serveRoutes([endless, watch, late, large]);
  });
  afterEach(() => served.close());

  it('tells its handler when the client leaves, and lets it finish', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${served.baseUrl}/endless`, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await left.promise;
    await sentAfterwards.promise;
  });

  it('ends with an error event when the server stops', async () => {
    const response = await fetch(`${served.baseUrl}/endless`);
    await served.streams.drain(10);
    const events = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);
    expect(events).to.deep.equal(['token', 'error']);
  });

  it('ends at once when the server stops and it only watches', async () => {
    const response = await fetch(`${served.baseUrl}/watch`);
    await served.streams.drain(60_000);
    await left.promise;
    const events = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event);
    expect(events).to.deep.equal(['progress', 'error']);
  });

  it('tells a watch when its client leaves', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${served.baseUrl}/watch`, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await left.promise;
  });

  it('is not waited for when its client left before it opened', async () => {
    const leaving = new AbortController();
    const response = fetch(`${served.baseUrl}/late`, { signal: leaving.signal }).catch(() => undefined);
    await begun.promise;
    leaving.abort();
    await Promise.all([response, sentAfterwards.promise]);
    await served.streams.drain(60_000);
  });

  it('brings a reader an event of any size', async () => {
    const text = await (await fetch(`${served.baseUrl}/large`)).text();
    expect(text).to.match(/x"\n\n$/);
  });

  it('keeps no shutdown waiting when there is none', () => served.streams.drain(60_000));
});

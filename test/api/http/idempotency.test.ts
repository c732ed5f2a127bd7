import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { z } from 'zod';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createIdempotencyStore } from '#src/adapters/postgres/idempotency-keys.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import { createdAnswer, eventStreamAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { IdempotencyStore } from '#src/ports/idempotency-store.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { createTestDatabase } from '#test/support/services.ts';

const long = 'x'.repeat(64 * 1024);

describe('Idempotency-Key', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  let store: IdempotencyStore;
  let served: ServedRoutes;
  const [userId, otherUserId] = [randomUUID(), randomUUID()];
  /** What the handlers did, and what they are told to do. */
  let effects = 0;
  let newIds: string[] = [];
  let refusal: ErrorCode | undefined;
  let isLong = false;
  let gate = Promise.resolve();
  beforeEach(() => {
    [effects, newIds, refusal, isLong, gate] = [0, [], undefined, false, Promise.resolve()];
  });

  const facts = { method: 'post', tag: 'works', summary: 'Work', access: 'user', idempotent: true } as const;
  const routes: HttpRoute[] = [
    defineRoute({
      ...facts,
      path: '/works',
      operationId: 'work',
      body: z.strictObject({
        name: z.string(),
        size: z.int().optional(),
        password: z.string().optional().meta({ writeOnly: true }),
      }),
      responses: { 201: { description: 'Done', schema: z.strictObject({ effect: z.int(), text: z.string() }) } },
      handle: async ({ newId }) => {
        newIds.push(newId);
        effects += 1;
        const effect = effects;
        await gate;
        if (refusal !== undefined) throw appError(refusal);
        return createdAnswer({ effect, text: isLong ? long : '' }, { Location: `/works/${effect}` });
      },
    }),
    defineRoute({
      ...facts,
      path: '/streams',
      operationId: 'stream',
      responses: { 200: { description: 'Events', contentType: 'text/event-stream' } },
      handle: () =>
        eventStreamAnswer(async (events) => {
          effects += 1;
          await events.send({ id: '1:0', event: 'token', data: { t: isLong ? long : `${effects}` } });
          await events.send({ event: refusal === undefined ? 'done' : 'error', data: {} });
        }),
    }),
  ];

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'idempotency test' });
    store = createIdempotencyStore(db);
    const user = (id: string) => ({ id, email: `${id}@example.com`, displayName: 'Ada' });
    await db('users').insert([user(userId), user(otherUserId)]);
    served = await serveRoutes(routes, {
      idempotency: store,
      authenticate: async (authorization) => {
        const id = authorization === undefined ? userId : otherUserId;
        const rights = {
          isOrgAdmin: false,
          teamIds: [],
          teamAdminOf: [],
          openTeamIds: [],
          contributesToOrganization: false,
        };
        const actor = { userId: id, orgId: randomUUID(), ...rights };
        return { sessionId: randomUUID(), scopes: null, actor, actorNow: async () => actor };
      },
    });
  });
  after(async () => {
    await served.close();
    await db.destroy();
    await database.drop();
  });

  async function post(path: string, key: string, body?: object, headers: Record<string, string> = {}) {
    const response = await fetch(`${served.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key, ...headers },
      body: JSON.stringify(body) ?? null,
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : null;
    return { status: response.status, headers: response.headers, text, json };
  }
  const isReplayed = ({ headers }: { headers: Headers }) => headers.get('idempotency-replayed') === 'true';
  const a = { name: 'a' };

  it('returns the first response to an equal request of the same user, 422 to another body, and 400 to an invalid key', async () => {
    const key = randomUUID();
    const first = await post('/works', key, { name: 'a', size: 1 });
    const again = await post('/works', key, { size: 1, name: 'a' });
    expect(effects).to.equal(1);
    expect([again.status, again.headers.get('location'), again.text]).to.deep.equal([201, '/works/1', first.text]);
    expect([isReplayed(first), isReplayed(again)]).to.deep.equal([false, true]);
    // The key is scoped to user and route.
    await post('/works', key, a, { authorization: 'other' });
    await post('/streams', key, a);
    expect(effects).to.equal(3);
    const other = await post('/works', key, { name: 'b' });
    expect([other.status, other.json.code]).to.deep.equal([422, 'idempotency_key_reused']);
    expect(await post('/works', 'x'.repeat(256), a)).include({ status: 400 });
  });

  it('runs concurrent requests once, and answers 409 while the first one runs', async () => {
    const key = randomUUID();
    const opened = Promise.withResolvers<void>();
    gate = opened.promise;
    const first = post('/works', key, a);
    while (effects === 0) await new Promise(setImmediate);
    const others = await Promise.all(Array.from({ length: 49 }, () => post('/works', key, a)));
    for (const { status, json } of others) expect([status, json.code]).to.deep.equal([409, 'idempotency_in_flight']);
    opened.resolve();
    expect((await first).status).to.equal(201);
    expect(effects).to.equal(1);
  });

  it('replays an error that the request caused, but runs the request again after an error that may be temporary', async () => {
    for (const [code, isKept] of [
      ['validation_failed', true],
      ['forbidden', true],
      ['document_not_found', true],
      ['round_in_progress', false],
      ['rate_limited', false],
      ['invalid_token', false],
      ['internal_error', false],
    ] as const) {
      const key = randomUUID();
      [effects, newIds, refusal] = [0, [], code];
      const first = await post('/works', key, a);
      refusal = undefined;
      const again = await post('/works', key, a);
      if (isKept) expect(again.headers.get('content-type')).to.contain('application/problem+json');
      const expected = isKept ? [first.status, first.text, 1] : [201, JSON.stringify({ effect: 2, text: '' }), 2];
      expect([again.status, again.text, effects], code).to.deep.equal(expected);
      // A request that runs again gets the same id.
      expect(new Set(newIds).size).to.equal(1);
    }
  });

  it('ignores secrets when it compares requests, and stores no error that a secret may have caused', async () => {
    const key = randomUUID();
    refusal = 'validation_failed';
    expect(await post('/works', key, { name: 'a', password: 'short' })).include({ status: 422 });
    refusal = undefined;
    for (const password of ['Correct-horse-1', 'Correct-horse-2']) {
      expect(await post('/works', key, { name: 'a', password })).include({ status: 201 });
    }
    expect(effects).to.equal(2);
  });

  it('replays neither responses above 64 KiB nor failed streams, and runs these requests again', async () => {
    const stream = randomUUID();
    const first = await post('/streams', stream);
    expect((await post('/streams', stream)).text).to.equal(first.text);
    for (const [path, isFailed] of [['/works'], ['/streams'], ['/streams', true]] as const) {
      [isLong, refusal] = [!isFailed, isFailed ? 'internal_error' : undefined];
      const key = randomUUID();
      for (const answer of [await post(path, key, a), await post(path, key, a)]) {
        expect([answer.status < 300, isReplayed(answer)], path).to.deep.equal([true, false]);
      }
    }
    expect([effects, newIds.length, new Set(newIds).size]).to.deep.equal([1 + 2 + 4, 2, 1]);
  });

  it('forgets responses after a day, also those that are never requested again', async () => {
    const key = randomUUID();
    const pass = () => db('idempotency_keys').update({ createdAt: db.raw("now() - interval '25 hours'") });
    await post('/works', key, a);
    await pass();
    expect(await post('/works', key, { name: 'b' }))
      .property('json')
      .property('effect', 2);
    await pass();
    await store.forgetExpired();
    expect(await db('idempotency_keys').select()).to.deep.equal([]);
  });

  it('of a stalled process is taken over by an equal request only; the stalled process then changes nothing', async () => {
    const key = { userId, route: 'POST /works', key: randomUUID() };
    const claim = (fingerprint = 'same') => store.claim(key, fingerprint, 20);
    async function claimed(): Promise<string> {
      const taken = await claim();
      if (taken.outcome !== 'claimed') throw new Error(`the key is ${taken.outcome}`);
      return taken.leaseOwner;
    }
    const released = await claimed();
    await store.release(key, released);
    await store.renew(key, released, 20);
    const stalled = await claimed();
    expect(await claim()).to.deep.equal({ outcome: 'in_flight' });
    await store.renew(key, stalled, -1);
    expect(await claim('other')).to.deep.equal({ outcome: 'other_request' });
    const successor = await claimed();
    await store.release(key, stalled);
    await store.renew(key, stalled, -1);
    await store.complete(key, stalled, { status: 201, headers: {}, body: { kind: 'empty' } });
    expect(await claim()).to.deep.equal({ outcome: 'in_flight' });
    const data = { zebra: 1, id: 2, a: { longer: 3, b: 4 } };
    const response = { status: 200, headers: {}, body: { kind: 'json' as const, data } };
    await store.complete(key, successor, response);
    // The order of fields stays, too.
    expect(JSON.stringify(await claim())).to.equal(JSON.stringify({ outcome: 'stored', response }));
  });
});

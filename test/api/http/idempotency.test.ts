import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { z } from 'zod';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createIdempotencyStore } from '#src/adapters/postgres/idempotency-keys.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import { createdAnswer, eventStreamAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute, multipartBody } from '#src/http/routing/route.ts';
import type { IdempotencyKey } from '#src/ports/idempotency-store.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { createTestDatabase } from '#test/support/services.ts';

describe('Idempotency-Key', () => {
  const userId = randomUUID();
  const otherUserId = randomUUID();
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  let served: ServedRoutes;
  let effects = 0;
  let newIds: string[] = [];
  let refusal: ErrorCode | undefined;
  let isLong = false;
  let discarded = 0;
  /** The handler waits for this promise. */
  let gate = Promise.resolve();

  const facts = {
    method: 'post',
    tag: 'works',
    summary: 'Work of the tests',
    access: 'user',
    idempotent: true,
  } as const;
  const work = z.strictObject({ effect: z.int() });
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
      responses: { 201: { description: 'Done', schema: work } },
      handle: async ({ newId }) => {
        newIds.push(newId);
        effects += 1;
        const effect = effects;
        await gate;
        if (refusal !== undefined) throw appError(refusal);
        return createdAnswer({ effect }, { Location: `/works/${effect}` });
      },
    }),
    defineRoute({
      ...facts,
      path: '/large-works',
      operationId: 'workLarge',
      responses: { 201: { description: 'Done', schema: z.strictObject({ text: z.string() }) } },
      handle: async ({ newId }) => {
        newIds.push(newId);
        return createdAnswer({ text: 'x'.repeat(64 * 1024) });
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
          const t = isLong ? 'x'.repeat(64 * 1024) : `${effects}`;
          await events.send({ id: '1:0', event: 'token', data: { t } });
          await events.send({ event: refusal === undefined ? 'done' : 'error', data: {} });
        }),
    }),
    defineRoute({
      ...facts,
      path: '/uploads',
      operationId: 'upload',
      body: multipartBody({
        fields: z.strictObject({ name: z.string() }),
        store: async (_actor, { fileName, mediaType, content }) => {
          const text = (await content.toArray()).join('');
          return { blobKey: 'b', claimId: 'c', fileName, mediaType, sizeBytes: text.length, sha256: text };
        },
        discard: async () => {
          discarded += 1;
        },
      }),
      responses: { 201: { description: 'Stored', schema: work } },
      handle: () => {
        effects += 1;
        return createdAnswer({ effect: effects });
      },
    }),
  ];

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'idempotency test' });
    const user = (id: string) => ({ id, email: `${id}@example.com`, displayName: 'Ada' });
    await db('users').insert([user(userId), user(otherUserId)]);
    served = await serveRoutes(routes, {
      idempotency: createIdempotencyStore(db),
      authenticate: async (authorization) => {
        const actor = {
          userId: authorization === undefined ? userId : otherUserId,
          orgId: randomUUID(),
          isOrgAdmin: false,
          teamIds: [],
          teamAdminOf: [],
          openTeamIds: [],
        };
        return { sessionId: randomUUID(), actor, actorNow: async () => actor };
      },
    });
  });
  after(async () => {
    await served.close();
    await db.destroy();
    await database.drop();
  });
  beforeEach(() => {
    effects = 0;
    newIds = [];
    discarded = 0;
    refusal = undefined;
    isLong = false;
    gate = Promise.resolve();
  });

  const post = (path: string, key: string, body?: object, headers: Record<string, string> = {}) =>
    fetch(`${served.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const code = async (response: Response) => z.object({ code: z.string() }).parse(await response.json()).code;

  it('does not store a response above 64 KiB: the request runs again with the same id', async () => {
    const key = randomUUID();
    for (const answer of [await post('/large-works', key), await post('/large-works', key)]) {
      expect(answer.status).equal(201);
      expect(answer.headers.get('idempotency-replayed')).equal(null);
    }
    expect(newIds).length(2);
    expect(new Set(newIds).size).equal(1);
  });

  async function claimed(key: IdempotencyKey): Promise<string> {
    const claim = await createIdempotencyStore(db).claim(key, 'same', 20);
    if (claim.outcome !== 'claimed') throw new Error(`the key is ${claim.outcome}`);
    return claim.leaseOwner;
  }

  it('returns the first response with its headers, and runs the request once', async () => {
    const key = randomUUID();
    const first = await post('/works', key, { name: 'a', size: 1 });
    const again = await post('/works', key, { size: 1, name: 'a' });
    expect(effects).to.equal(1);
    expect([again.status, again.headers.get('location')]).to.deep.equal([201, '/works/1']);
    expect(await again.json()).to.deep.equal(await first.json());
    expect(again.headers.get('idempotency-replayed')).to.equal('true');
  });

  it('runs concurrent requests once', async () => {
    const key = randomUUID();
    const responses = await Promise.all(Array.from({ length: 50 }, () => post('/works', key, { name: 'a' })));
    expect(effects).to.equal(1);
    for (const response of responses) expect(response.status).to.be.oneOf([201, 409]);
  });

  it('answers 409 while the first request is running', async () => {
    const key = randomUUID();
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    const first = post('/works', key, { name: 'a' });
    while (effects === 0) await new Promise(setImmediate);
    const second = await post('/works', key, { name: 'a' });
    expect([second.status, await code(second)]).to.deep.equal([409, 'idempotency_in_flight']);
    resolve();
    expect((await first).status).to.equal(201);
  });

  it('answers 422 for the same key with another body', async () => {
    const key = randomUUID();
    await post('/works', key, { name: 'a' });
    const other = await post('/works', key, { name: 'b' });
    expect([other.status, await code(other)]).to.deep.equal([422, 'idempotency_key_reused']);
  });

  it('answers 400 for an invalid key', async () => {
    expect((await post('/works', 'x'.repeat(256), { name: 'a' })).status).to.equal(400);
  });

  it('is scoped to user and route', async () => {
    const key = randomUUID();
    await post('/works', key, { name: 'a' });
    await post('/works', key, { name: 'a' }, { authorization: 'other' });
    await post('/streams', key, { name: 'a' });
    expect(effects).to.equal(3);
  });

  for (const kept of ['validation_failed', 'forbidden', 'document_not_found'] as const) {
    it(`keeps ${kept}`, async () => {
      const key = randomUUID();
      refusal = kept;
      const first = await post('/works', key, { name: 'a' });
      const again = await post('/works', key, { name: 'a' });
      expect(effects).to.equal(1);
      expect(again.headers.get('content-type')).to.contain('application/problem+json');
      expect([again.status, await again.json()]).to.deep.equal([first.status, await first.json()]);
    });
  }

  it('does not store errors of a request with a secret, because the secret may be the cause', async () => {
    const key = randomUUID();
    refusal = 'validation_failed';
    expect((await post('/works', key, { name: 'a', password: 'short' })).status).to.equal(422);
    refusal = undefined;
    expect((await post('/works', key, { name: 'a', password: 'Correct-horse-1' })).status).to.equal(201);
  });

  it('ignores secrets when it compares requests', async () => {
    const key = randomUUID();
    await post('/works', key, { name: 'a', password: 'Correct-horse-1' });
    const again = await post('/works', key, { name: 'a', password: 'Correct-horse-2' });
    expect([again.status, effects]).to.deep.equal([201, 1]);
  });

  it('gives a repeated request the id of the failed one, and other requests other ids', async () => {
    const [key, otherKey] = [randomUUID(), randomUUID()];
    for (refusal of ['internal_error', 'rate_limited', 'round_in_progress', undefined] as const) {
      await post('/works', key, { name: 'a' });
    }
    await post('/works', otherKey, { name: 'a' });
    expect(new Set(newIds.slice(0, 4)).size).to.equal(1);
    expect(new Set(newIds).size).to.equal(2);
  });

  for (const passing of ['round_in_progress', 'rate_limited', 'invalid_token', 'internal_error'] as const) {
    it(`forgets ${passing}`, async () => {
      const key = randomUUID();
      refusal = passing;
      await post('/works', key, { name: 'a' });
      refusal = undefined;
      expect((await post('/works', key, { name: 'a' })).status).to.equal(201);
    });
  }

  it('lets only the same request take over from a crashed process', async () => {
    const key = { userId, route: 'POST /works', key: randomUUID() };
    const store = createIdempotencyStore(db);
    const first = await claimed(key);
    expect(await store.claim(key, 'same', 20)).to.deep.equal({ outcome: 'in_flight' });
    await store.renew(key, first, -1);
    expect(await store.claim(key, 'other', 20)).to.deep.equal({ outcome: 'other_request' });
    await claimed(key);
  });

  it('is free after its release, even if the lease is renewed later', async () => {
    const key = { userId, route: 'POST /works', key: randomUUID() };
    const store = createIdempotencyStore(db);
    const released = await claimed(key);
    await store.release(key, released);
    await store.renew(key, released, 20);
    await claimed(key);
  });

  it('keeps the order of fields in a stored response', async () => {
    const key = { userId, route: 'POST /works', key: randomUUID() };
    const store = createIdempotencyStore(db);
    const data = { zebra: 1, id: 2, a: { longer: 3, b: 4 } };
    await store.complete(key, await claimed(key), { status: 201, headers: {}, body: { kind: 'json', data } });
    const kept = await store.claim(key, 'same', 20);
    expect(JSON.stringify(kept)).to.contain(JSON.stringify(data));
  });

  it('cannot be changed by a process whose lease was taken over', async () => {
    const key = { userId, route: 'POST /works', key: randomUUID() };
    const store = createIdempotencyStore(db);
    const stalled = await claimed(key);
    await store.renew(key, stalled, -1);
    const successor = await claimed(key);

    await store.release(key, stalled);
    await store.renew(key, stalled, -1);
    await store.complete(key, stalled, { status: 201, headers: {}, body: { kind: 'empty' } });
    expect(await store.claim(key, 'same', 20)).to.deep.equal({ outcome: 'in_flight' });
    const response = { status: 204, headers: {}, body: { kind: 'empty' as const } };
    await store.complete(key, successor, response);
    expect(await store.claim(key, 'same', 20)).to.deep.equal({ outcome: 'stored', response });
  });

  it('forgets responses after a day', async () => {
    const key = randomUUID();
    await post('/works', key, { name: 'a' });
    await db('idempotency_keys')
      .where({ key })
      .update({ createdAt: db.raw("now() - interval '25 hours'") });
    expect(await (await post('/works', key, { name: 'b' })).json()).to.deep.equal({ effect: 2 });
  });

  it('deletes expired responses even if they are never requested', async () => {
    const key = randomUUID();
    await post('/works', key, { name: 'a' });
    await db('idempotency_keys').update({ createdAt: db.raw("now() - interval '25 hours'") });
    await createIdempotencyStore(db).forgetExpired();
    expect(await db('idempotency_keys').select()).to.deep.equal([]);
  });

  it('replays a successful stream, but not a failed one or one above 64 KiB', async () => {
    const key = randomUUID();
    const first = await (await post('/streams', key)).text();
    expect(await (await post('/streams', key)).text()).to.equal(first);
    expect(effects).to.equal(1);

    const failing = randomUUID();
    refusal = 'internal_error';
    await (await post('/streams', failing)).text();
    await (await post('/streams', failing)).text();
    expect(effects).to.equal(3);

    const long = randomUUID();
    refusal = undefined;
    isLong = true;
    await (await post('/streams', long)).text();
    expect((await post('/streams', long)).headers.get('idempotency-replayed')).equal(null);
    expect(effects).to.equal(5);
  });

  it('compares files by content and stores equal files once', async () => {
    const upload = (key: string, content: string) => {
      const form = new FormData();
      form.append('name', 'a');
      form.append('file', new Blob([content]), 'f.txt');
      return fetch(`${served.baseUrl}/uploads`, { method: 'POST', headers: { 'idempotency-key': key }, body: form });
    };
    const key = randomUUID();
    await upload(key, 'one');
    const again = await upload(key, 'one');
    expect([again.status, await again.json(), discarded]).to.deep.equal([201, { effect: 1 }, 1]);
    const other = await upload(key, 'two');
    expect([other.status, discarded]).to.deep.equal([422, 2]);
  });
});

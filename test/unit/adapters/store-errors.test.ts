import { once } from 'node:events';
import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { isDatabaseOutage, toLoggableError } from '#src/adapters/postgres/errors.ts';
import { createQdrantVectorStore } from '#src/adapters/vectors/qdrant.ts';
import { AppError } from '#src/errors.ts';
import {
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.fail('nothing was wrong'),
    (error: unknown) => error,
  );

describe('an outage of Postgres', () => {
  it('is recognized by a refused, closed or lost connection, not by an error of a statement', async () => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `postgres://user@127.0.0.1:${Object(server.address()).port}/database`;
    const failure = async () => {
      const db = createDatabase({ url, maxConnections: 1, applicationName: 'test' });
      const error = await errorOf(Promise.resolve(db.raw('select 1')));
      await db.destroy();
      return error;
    };
    expect(isDatabaseOutage(await failure()), 'closed').equal(true);
    server.close();
    await once(server, 'close');
    expect(isDatabaseOutage(await failure()), 'refused').equal(true);
    const lost = 'ROLLBACK - Client has encountered a connection error and is not queryable';
    expect(isDatabaseOutage(new Error(lost)), 'lost within a transaction').equal(true);
    const wrong = Object.assign(new Error('syntax error'), { code: '42601' });
    expect([wrong, 'text'].map(isDatabaseOutage)).deep.equal([false, false]);
  });
});

describe('an error in the log', () => {
  it('keeps its fields, except fields of a Postgres error that quote the values of a row', () => {
    const of = (fields: object) => Object.assign(new Error('It failed.'), fields);
    const ofPostgres = { code: '23505', severity: 'ERROR', table: 'users', detail: 'Key (email)=(ada@example.org)' };
    expect(toLoggableError(of(ofPostgres)))
      .include({ code: '23505', table: 'users' })
      .not.property('detail');
    const ofNetwork = { code: 'ECONNREFUSED', detail: 'port 5432' };
    expect(toLoggableError(of(ofNetwork))).include({ ...ofNetwork, message: 'It failed.' });
    expect(toLoggableError('text')).equal('text');
  });
});

describe('the client of Qdrant', () => {
  const apiKey = 'the-key-of-the-server';
  let server: ScriptedServer;
  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());

  const refusal = (status: number, text: string, headers?: Record<string, string>) =>
    answerJson(status, { status: { error: text }, time: 0 }, headers);
  const store = (searchTimeoutMs = 60_000, url = `${new URL(server.baseUrl).origin}/store/`) =>
    createQdrantVectorStore({ url, apiKey, collectionPrefix: 'test', searchTimeoutMs });
  type Search = { orgId?: string; signal?: AbortSignal; of?: ReturnType<typeof store> };
  const search = ({ orgId = uuidv7(), signal, of = store() }: Search = {}) =>
    of.search({
      readable: { orgId, acl: ['user:ada'] },
      ...{ model: 'm', vector: Float32Array.of(1, 0, 0), limit: 1, minSimilarity: 0 },
      ...(signal && { signal }),
    });

  const away = 'service_unavailable';
  const faults: [what: string, answer: ScriptedAnswer, code: string][] = [
    ['fails', refusal(500, 'Service internal error'), away],
    ['is overloaded', refusal(503, 'busy'), away],
    ['is asked too often', refusal(429, 'slow down', { 'retry-after': '20' }), away],
    ['refuses the key, and quotes it', refusal(401, `wrong: ${apiKey}`), away],
    ['forbids the request, and quotes the key', refusal(403, `not for ${apiKey}`), away],
    ['refuses the request, and quotes the key', refusal(400, `with ${apiKey}`), 'internal_error'],
    ['has other vectors', refusal(400, 'Vector dimension error: expected dim: 4, got 3'), 'embedding_model_changed'],
    ['hangs up', (response) => response.destroy(), away],
    ['answers no JSON', (response) => response.writeHead(200).end('<html>'), away],
    ['answers without a result', answerJson(200, { status: 'ok' }), away],
    ['is silent', () => undefined, away],
  ];
  it('reports a failed search with an error code, and never with the API key', async () => {
    for (const [what, answer, code] of faults) {
      server.answer(answer);
      const error = await errorOf(search({ of: store(what === 'is silent' ? 200 : undefined) }));
      expect(error, what).instanceOf(AppError).include({ code });
      expect(inspect(error, { depth: null }), what).not.include(apiKey);
    }
    const gone = store(undefined, 'http://127.0.0.1:1');
    expect(await errorOf(gone.countGenerations([]))).include({ code: away });
  });

  it('refuses a search without an organization, and finds nothing if the collection does not exist', async () => {
    server.answer(answerJson(200, { result: { points: [] }, status: 'ok', time: 0 }));
    expect(await errorOf(search({ orgId: '' }))).instanceOf(TypeError);
    expect(server.calls).deep.equal([]);
    expect(await search()).deep.equal([]);
    expect(server.calls[0]?.path).match(/^\/store\/collections\/test_m_[0-9a-f]{12}\/points\/query/);
    expect(JSON.stringify(server.calls[0]?.body)).match(/"must":\[\{"key":"org_id","match":\{"value":"[0-9a-f-]{36}"/);
    server.answer(refusal(404, "Not found: Collection `test_m` doesn't exist!"));
    expect(await search()).deep.equal([]);
  });
});

import { inspect } from 'node:util';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createQdrantVectorStore } from '#src/adapters/vectors/qdrant.ts';
import { AppError } from '#src/errors.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import {
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

const apiKey = 'a-key-that-nobody-may-read';
const refusal = (status: number, text: string, headers?: Record<string, string>) =>
  answerJson(status, { status: { error: text }, time: 0 }, headers);

/** Behaviour of the server, and the expected error code. */
const faults: Record<string, { answer: ScriptedAnswer; code: string }> = {
  fails: { answer: refusal(500, 'Service internal error'), code: 'service_unavailable' },
  'is overloaded': { answer: refusal(503, 'busy'), code: 'service_unavailable' },
  'is asked too often': { answer: refusal(429, 'slow down', { 'retry-after': '20' }), code: 'service_unavailable' },
  'refuses the key, and quotes it': { answer: refusal(401, `wrong: ${apiKey}`), code: 'service_unavailable' },
  'forbids it': { answer: refusal(403, `not for ${apiKey}`), code: 'service_unavailable' },
  'refuses the request, and quotes the key': { answer: refusal(400, `with ${apiKey}`), code: 'internal_error' },
  'takes vectors of another size': {
    answer: refusal(400, 'Wrong input: Vector dimension error: expected dim: 4, got 3'),
    code: 'embedding_model_changed',
  },
  'hangs up': { answer: (response) => response.destroy(), code: 'service_unavailable' },
  'hangs up in the middle of its answer': {
    answer: (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"result":', () => response.destroy());
    },
    code: 'service_unavailable',
  },
  'gives no JSON': { answer: (response) => response.writeHead(200).end('<html>'), code: 'service_unavailable' },
  'gives no result': { answer: answerJson(200, { status: 'ok' }), code: 'service_unavailable' },
};

describe('errors of a Qdrant server', () => {
  let server: ScriptedServer;
  let vectors: VectorStore;
  before(async () => {
    server = await startScriptedServer();
    vectors = storeThatWaits(60_000);
  });
  after(() => server.close());

  function storeThatWaits(searchTimeoutMs: number): VectorStore {
    const url = `${new URL(server.baseUrl).origin}/store/`;
    return createQdrantVectorStore({ url, apiKey, collectionPrefix: 'test', searchTimeoutMs });
  }
  const search = (signal?: AbortSignal, store = vectors) =>
    store.search({
      readable: { orgId: uuidv7(), acl: ['user:ada'] },
      ...{ model: 'm', vector: Float32Array.of(1, 0, 0), limit: 1, minSimilarity: 0 },
      ...(signal && { signal }),
    });
  const errorOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => expect.fail('nothing was wrong'),
      (error: unknown) => error,
    );

  for (const [what, { answer, code }] of Object.entries(faults)) {
    it(`${what}: ${code}, without the key`, async () => {
      server.answer(answer);
      const error = await errorOf(search());
      expect(error).instanceOf(AppError).include({ code });
      expect(inspect(error, { depth: null })).not.include(apiKey);
    });
  }

  it('a silent server: service_unavailable, without the key', async () => {
    server.answer(() => undefined);
    const error = await errorOf(search(undefined, storeThatWaits(200)));
    expect(error).instanceOf(AppError).include({ code: 'service_unavailable' });
    expect(inspect(error, { depth: null })).not.include(apiKey);
  });

  it('an unreachable server: service_unavailable', async () => {
    const gone = createQdrantVectorStore({ url: 'http://127.0.0.1:1', apiKey, collectionPrefix: 'test' });
    expect(await errorOf(gone.countGenerations([]))).include({ code: 'service_unavailable' });
  });

  it('a silent server: the caller can abort', async () => {
    server.answer(() => undefined);
    const asker = new AbortController();
    const error = errorOf(search(asker.signal));
    asker.abort(new Error('gone'));
    expect(await error).include({ message: 'gone' });
  });

  it('a missing collection: nothing is found', async () => {
    server.answer(refusal(404, "Not found: Collection `test_m` doesn't exist!"));
    expect(await search()).deep.equal([]);
  });

  it('requests go to the path of the URL, with the key, for one organization', async () => {
    server.answer(answerJson(200, { result: { points: [] }, status: 'ok', time: 0 }));
    expect(await search()).deep.equal([]);
    expect(server.calls[0]?.path).match(/^\/store\/collections\/test_m_[0-9a-f]{12}\/points\/query/);
    expect(JSON.stringify(server.calls[0]?.body)).match(/"must":\[\{"key":"org_id","match":\{"value":"[0-9a-f-]{36}"/);
  });

  it('no request is sent without an organization', async () => {
    server.answer(answerJson(200, { result: { points: [] }, status: 'ok', time: 0 }));
    const nobody = { orgId: '', acl: ['user:ada'] };
    const query = { readable: nobody, model: 'm', vector: Float32Array.of(1), limit: 1, minSimilarity: 0 };
    expect(await errorOf(vectors.search(query))).instanceOf(TypeError);
    expect(server.calls).deep.equal([]);
  });
});

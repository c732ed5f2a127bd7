import { mock } from 'node:test';
import { expect } from 'chai';
import { createEmbedder, createEmbedders } from '#src/adapters/models/embedder.ts';
import type { EmbedOptions } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  answerError,
  answerEmbeddings as embeddings,
  answerJson as json,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';
import { until } from '#test/support/until.ts';

describe('the client of an embedding model', () => {
  let server: ScriptedServer;
  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());
  afterEach(() => mock.timers.reset());

  const base64 = (vector: number[]) => Buffer.from(Float32Array.from(vector).buffer).toString('base64');
  const sent = () => server.calls.map((call) => (call.body as { input: string[] }).input);
  const connection = () => ({ baseUrl: server.baseUrl, apiKey: 'key', estimateTokens: (text: string) => text.length });
  const embedder = () => createEmbedder({ ...connection(), model: 'model' });
  const embed = (texts: string[], options?: EmbedOptions) => embedder().embed(texts, options);
  const faultOf = (work: Promise<unknown>) =>
    work.then(
      () => expect.fail('nothing was wrong'),
      (error: unknown) => error,
    );
  const texts = (count: number) => Array.from({ length: count }, (_, index) => 'x'.repeat(1 + ((index * 37) % count)));
  const byLength = embeddings((text) => [text.length, 1]);
  const lengthsIn = (vectors: readonly Float32Array[]) =>
    vectors.map((vector) => Math.round((vector[0] ?? 0) / (vector[1] ?? 1)));

  it('returns unit vectors, from base64 or numbers', async () => {
    for (const encode of [base64, (vector: number[]) => vector]) {
      server.answer(embeddings((text) => encode(text === 'a' ? [3, 4] : [0, 2])));
      const [a, b] = await embed(['a', 'b']);
      expect(a?.[0]).closeTo(0.6, 1e-6);
      expect(a?.[1]).closeTo(0.8, 1e-6);
      expect(Array.from(b ?? [])).deep.equal([0, 1]);
    }
  });

  it('requests the model and dimensions of an embedding id, and rejects a response with other dimensions', async () => {
    server.answer(embeddings(() => [1, 0, 0]));
    const embedders = createEmbedders(connection());
    const codes = await Promise.all(
      ['small', 'org/large@latest', 'large@2'].map((id) => appErrorCode(embedders.of(id).embed(['a'])).catch(() => id)),
    );
    expect(codes).deep.equal(['small', 'org/large@latest', 'model_response_invalid']);
    const asked = server.calls.map(({ body }) => body as { model: string; dimensions?: number });
    expect(asked.map(({ model, dimensions }) => `${model} ${dimensions}`)).members([
      ...['small undefined', 'org/large@latest undefined', 'large 2'],
    ]);
    expect(embedders.of('large@2')).equal(embedders.of('large@2')).property('model', 'large@2');
  });

  it('sends at most 64 texts per call, of similar length, and reports the vectors of each call', async () => {
    server.answer(byLength);
    const indexes: number[] = [];
    const all = texts(130);
    const vectors = await embed(all, {
      onVectors: async (some) => void indexes.push(...some.map(({ index }) => index)),
    });
    expect(lengthsIn(vectors)).deep.equal(all.map((text) => text.length));
    const calls = sent().sort((one, other) => (other[0]?.length ?? 0) - (one[0]?.length ?? 0));
    expect(calls.map((call) => call.length).sort()).deep.equal([2, 64, 64]);
    const [long = [], short = []] = calls.map((call) => call.map((text) => text.length));
    expect(Math.min(...long)).above(Math.max(...short));
    expect(indexes.sort((a, b) => a - b)).deep.equal([...all.keys()]);
  });

  const faults: [what: string, answer: ScriptedAnswer, code: string][] = [
    ['an error response', answerError(429, 'no'), 'model_unavailable'],
    ['a closed connection', (response) => response.destroy(), 'model_unavailable'],
    ['no JSON', (response) => response.writeHead(200).end('<html>'), 'model_response_invalid'],
    ['another shape', json(200, { vectors: [] }), 'model_response_invalid'],
    ['too few vectors', json(200, { data: [] }), 'model_response_invalid'],
    ['a number twice', json(200, { data: Array(2).fill({ index: 0, embedding: [1] }) }), 'model_response_invalid'],
    ['a vector of zeros', embeddings(() => [0, 0]), 'model_response_invalid'],
    ['something that is no number', embeddings(() => ['x', 1]), 'model_response_invalid'],
    ['half a number', embeddings(() => Buffer.alloc(6, 1).toString('base64')), 'model_response_invalid'],
    ['several sizes', embeddings((text) => (text === 'a' ? [1, 0] : [1, 0, 0])), 'model_response_invalid'],
  ];
  it('fails without a retry after an error or a response of the wrong shape', async () => {
    for (const [what, answer, code] of faults) {
      server.answer(answer);
      expect(await appErrorCode(embed(['a', 'b'])), what).equal(code);
      expect(server.calls, what).length(1);
    }
  });

  it('accepts a response with another spelling of the requested model, and rejects one of another model', async () => {
    for (const answered of ['model', 'publisher/Model', 'model:latest', 'model-v2', 'model-2024-05-01']) {
      server.answer(embeddings(() => [1, 0], answered));
      expect(await embed(['a']), answered).length(1);
    }
    for (const answered of ['model-int8', 'another']) {
      server.answer(embeddings(() => [1, 0], answered));
      expect(await appErrorCode(embed(['a'])), answered).equal('model_response_invalid');
    }
  });

  it('rejects the first response whose vectors have a new size, and accepts later ones with that size', async () => {
    const own = embedder();
    const sizes = [];
    for (const vector of [[1], [1, 0], [1, 0]]) {
      server.answer(embeddings(() => vector));
      const found = await own.embed(['a']).catch(() => null);
      sizes.push(found?.[0]?.length ?? null);
    }
    expect(sizes).deep.equal([1, null, 2]);
  });

  it('halves batches that the service finds too large, and keeps to that size', async () => {
    for (const [status, message] of [
      [413, 'Payload too large'],
      [400, 'Invalid input: maximum batch size is 10'],
      [422, 'batch size 64 > maximum allowed batch size 10'],
      [400, "This model's maximum context length is 300000 tokens"],
    ] as const) {
      server.answer((response, body: { input: string[] }) =>
        (body.input.length > 10 ? answerError(status, message) : byLength)(response, body as never),
      );
      const own = embedder();
      expect(lengthsIn(await own.embed(texts(64)))).deep.equal(texts(64).map((text) => text.length));
      server.calls.length = 0;
      await own.embed(texts(64));
      expect(Math.max(...sent().map((call) => call.length)), message).at.most(10);
    }
  });

  it('splits a text beyond the context window into pieces, and fails if even short pieces are rejected', async () => {
    const text = Array.from({ length: 100 }, (_, index) => `word${index}`).join(' ');
    const pieces: string[] = [];
    server.answer((response, body: { input: string[] }) => {
      const isLong = body.input.some((input) => input.length > 200);
      if (isLong) return answerError(400, 'maximum context length exceeded')(response, body as never);
      if (body.input[0] !== 'short') pieces.push(...body.input);
      embeddings(() => [3, 4])(response, body as never);
    });
    const [long, short] = await embed([text, 'short']);
    expect(pieces.join('')).equal(text);
    for (const vector of [long, short]) expect(vector?.[0]).closeTo(0.6, 1e-6);
    server.answer(answerError(400, 'the limit of your account'));
    expect(await appErrorCode(embed(['x'.repeat(1_000)]))).equal('model_rejected');
    expect(server.calls.length).at.most(10);
  });

  it('limits concurrent bulk calls to four, serves users meanwhile, and can abort a waiting bulk call', async () => {
    const released = Promise.withResolvers<void>();
    let [underWay, most] = [0, 0];
    server.answer(async (response, body: { input: string[] }) => {
      if (body.input[0] !== 'for a user') {
        underWay += 1;
        most = Math.max(most, underWay);
        await released.promise;
        underWay -= 1;
      }
      embeddings(() => [1, 0])(response, body as never);
    });
    const own = embedder();
    const embedded = own.embed(Array(1_000).fill('a'), { isBulk: true });
    await until('four calls are under way', async () => underWay === 4);
    await own.embed(['for a user']);
    const stop = new AbortController();
    const waiting = faultOf(own.embed(['b'], { isBulk: true, signal: stop.signal }));
    stop.abort(new Error('not needed any more'));
    expect(await waiting).property('message', 'not needed any more');
    expect(server.calls).length(4 + 1);
    released.resolve();
    await embedded;
    expect(server.calls).length(16 + 1);
    expect(most).equal(4);
  });

  it('reports the seconds of Retry-After in the error, and never less than one second', async () => {
    mock.timers.enable({ apis: ['Date'] });
    for (const [after, expected] of [
      ['7', 7],
      [new Date(Date.now() + 30_000).toUTCString(), 30],
      ['0', 1],
      ['0.2', 1],
      ['Wed, 21 Oct 1965 07:28:00 GMT', 1],
    ] as const) {
      server.answer(answerError(429, 'slow down', { 'retry-after': after }));
      expect(await faultOf(embed(['a'])), after).property('retryAfterSeconds', expected);
    }
  });

  it('pauses bulk calls for the time of Retry-After, then continues', async () => {
    server.answer((response, body) => {
      const isFirst = server.calls.length === 1;
      const answer = isFirst ? answerError(429, 'slow down', { 'retry-after': '1' }) : embeddings(() => [1, 0]);
      answer(response, body);
    });
    expect(await embed(['a'], { isBulk: true })).length(1);
    const [refused, again] = server.calls;
    expect((again?.atMs ?? 0) - (refused?.atMs ?? 0)).at.least(990);
  });

  it('fails every call of every model without a request while the service asks for a long pause', async () => {
    mock.timers.enable({ apis: ['Date'] });
    server.answer(answerError(503, 'maintenance', { 'retry-after': '600' }));
    const embedders = createEmbedders(connection());
    for (const id of ['small', 'large', 'small']) {
      const fault = await faultOf(embedders.of(id).embed(['a'], { isBulk: id === 'large' }));
      expect(fault).include({ code: 'model_unavailable', retryAfterSeconds: 600 });
    }
    expect(server.calls).length(1);
    const bulk = await faultOf(embed(['a'], { isBulk: true }));
    expect(bulk).include({ code: 'model_unavailable', retryAfterSeconds: 600 });
  });

  it('aborts with the reason of the signal, and aborts all calls of a batch when one call fails', async () => {
    const stop = new AbortController();
    server.answer(() => stop.abort(new Error('not needed any more')));
    expect(await faultOf(embed(['a'], { signal: stop.signal }))).property('message', 'not needed any more');
    let closed = 0;
    server.answer((response, body: { input: string[] }) => {
      response.on('close', () => {
        if (!response.writableFinished) closed += 1;
      });
      if (body.input.length < 64) answerError(500, 'broken')(response, body as never);
    });
    expect(await appErrorCode(embed(Array(150).fill('a')))).equal('model_unavailable');
    await until('the others are closed', async () => closed === 2);
  });
});

import { mock } from 'node:test';
import { expect } from 'chai';
import { createEmbedder, createEmbedders } from '#src/adapters/models/embedder.ts';
import { AppError } from '#src/errors.ts';
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

describe('embedder', () => {
  let server: ScriptedServer;

  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());
  afterEach(() => mock.timers.reset());

  const base64 = (vector: number[]) => Buffer.from(Float32Array.from(vector).buffer).toString('base64');
  const sent = () => server.calls.map((call) => (call.body as { input: string[] }).input);
  const estimateTokens = (text: string) => text.length;

  const embedder = (options: { dimensions?: number; timeoutMs?: number } = {}) =>
    createEmbedder({ baseUrl: server.baseUrl, apiKey: 'key', model: 'model', estimateTokens, ...options });
  const embed = (texts: string[], options?: EmbedOptions) => embedder().embed(texts, options);
  async function faultOf(work: Promise<unknown>): Promise<AppError> {
    const fault: unknown = await work.then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(fault instanceof AppError)) throw new Error(`No AppError: ${String(fault)}`);
    return fault;
  }

  it('returns unit vectors in the order of the texts, from base64 or numbers', async () => {
    for (const encode of [base64, (vector: number[]) => vector]) {
      server.answer(embeddings((text) => encode(text === 'a' ? [3, 4] : [0, 2])));
      const [a, b] = await embed(['a', 'b']);
      expect(a?.[0]).closeTo(0.6, 1e-6);
      expect(a?.[1]).closeTo(0.8, 1e-6);
      expect(Array.from(b ?? [])).deep.equal([0, 1]);
    }
  });

  it('requests the model and dimensions of an embedding id', async () => {
    server.answer(embeddings(() => base64([1, 0])));
    const embedders = createEmbedders({ baseUrl: server.baseUrl, apiKey: 'key', estimateTokens });
    for (const id of ['small', 'large@2', 'org/large@latest']) await embedders.of(id).embed(['a']);
    const asked = server.calls.map(({ body }) => body as { model: string; dimensions?: number });
    expect(asked.map(({ model, dimensions }) => [model, dimensions])).deep.equal([
      ['small', undefined],
      ['large', 2],
      ['org/large@latest', undefined],
    ]);
    expect(embedders.of('large@2')).equal(embedders.of('large@2')).property('model', 'large@2');
  });

  it('pauses calls for all models after a Retry-After for one', async () => {
    server.answer(answerError(429, 'slow down', { 'retry-after': '600' }));
    const embedders = createEmbedders({ baseUrl: server.baseUrl, apiKey: 'key', estimateTokens });
    for (const id of ['small', 'large']) {
      expect(await faultOf(embedders.of(id).embed(['a']))).include({ code: 'model_unavailable' });
    }
    expect(server.calls).length(1);
  });

  it('sends at most 64 texts per call', async () => {
    server.answer(embeddings(() => base64([1, 0])));
    expect(await embed(Array.from({ length: 130 }, (_, index) => `text ${index}`))).length(130);
    expect(
      sent()
        .map((texts) => texts.length)
        .sort(),
    ).deep.equal([2, 64, 64]);
  });

  for (const [status, code] of [
    [400, 'model_rejected'],
    [401, 'model_not_configured'],
    [402, 'model_not_configured'],
    [403, 'model_not_configured'],
    [404, 'model_not_configured'],
    [422, 'model_rejected'],
    [429, 'model_unavailable'],
    [500, 'model_unavailable'],
    [503, 'model_unavailable'],
  ] as const) {
    it(`maps the status ${status} to ${code} without a retry`, async () => {
      server.answer(json(status, { error: { message: 'no', type: 'x', param: null, code: null } }));
      expect(await faultOf(embed(['a']))).property('code', code);
      expect(server.calls).length(1);
    });
  }

  it('maps an exhausted quota to model_not_configured', async () => {
    server.answer(json(429, { error: { message: 'no', type: 'x', param: null, code: 'insufficient_quota' } }));
    expect(await faultOf(embed(['a']))).property('code', 'model_not_configured');
  });

  it('passes on Retry-After', async () => {
    mock.timers.enable({ apis: ['Date'] });
    server.answer(json(429, { error: { message: 'slow down' } }, { 'retry-after': '7' }));
    expect(await faultOf(embed(['a']))).property('retryAfterSeconds', 7);
    const soon = new Date(Date.now() + 30_000).toUTCString();
    server.answer(json(503, { error: { message: 'slow down' } }, { 'retry-after': soon }));
    expect(await faultOf(embed(['a']))).property('retryAfterSeconds', 30);
  });

  for (const soonest of ['0', '0.2', 'Wed, 21 Oct 2015 07:28:00 GMT']) {
    it(`waits a second after Retry-After: ${soonest}`, async () => {
      server.answer(json(429, { error: { message: 'slow down' } }, { 'retry-after': soonest }));
      expect(await faultOf(embed(['a']))).property('retryAfterSeconds', 1);
    });
  }

  it('maps a broken connection to model_unavailable', async () => {
    server.answer((response) => response.destroy());
    expect(await faultOf(embed(['a']))).property('code', 'model_unavailable');
    server.answer((response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"data":', () => response.destroy());
    });
    expect(await faultOf(embed(['a']))).property('code', 'model_unavailable');
  });

  const unusable: Record<string, ScriptedAnswer> = {
    'no JSON': (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('<html>'),
    'another shape': json(200, { vectors: [] }),
    'too few vectors': json(200, { data: [] }),
    'the same number twice': json(200, {
      data: [
        { index: 0, embedding: [1] },
        { index: 0, embedding: [1] },
      ],
    }),
    'a vector of zeros': embeddings(() => [0, 0]),
    'something that is no number': embeddings(() => ['x', 1]),
    'half a number': embeddings(() => Buffer.from([1, 2, 3, 4, 5, 6]).toString('base64')),
    'vectors of several sizes': embeddings((text) => (text === 'a' ? [1, 0] : [1, 0, 0])),
  };
  for (const [name, unusableAnswer] of Object.entries(unusable)) {
    it(`rejects an answer with ${name}`, async () => {
      server.answer(unusableAnswer);
      expect(await faultOf(embed(['a', 'b']))).property('code', 'model_response_invalid');
    });
  }

  it('aborts with the reason of the signal', async () => {
    const stop = new AbortController();
    server.answer(() => stop.abort(new Error('not needed any more')));
    const fault: unknown = await embed(['a'], { signal: stop.signal }).catch((error: unknown) => error);
    expect(fault).property('message', 'not needed any more');
  });

  it('aborts bulk work at once while it waits for a slot', async () => {
    server.answer(() => undefined);
    const own = embedder();
    const busy = new AbortController();
    const others = own.embed(
      Array.from({ length: 256 }, () => 'a'),
      { isBulk: true, signal: busy.signal },
    );
    await until('four calls are under way', async () => server.calls.length === 4);
    const stop = new AbortController();
    const waiting = own.embed(['b'], { isBulk: true, signal: stop.signal });
    stop.abort(new Error('not needed any more'));
    expect(await waiting.catch((error: unknown) => error)).property('message', 'not needed any more');
    expect(server.calls).length(4);
    busy.abort();
    await others.catch(() => undefined);
  });

  it('batches texts of similar length, and returns the vectors in the order of the texts', async () => {
    server.answer(embeddings((text) => [text.length, 1]));
    const texts = Array.from({ length: 100 }, (_, index) => 'x'.repeat(1 + ((index * 37) % 100)));
    const vectors = await embed(texts);
    expect(vectors.map((vector) => Math.round((vector[0] ?? 0) / (vector[1] ?? 1)))).deep.equal(
      texts.map((text) => text.length),
    );
    const [long, short] = sent().sort((a, b) => b.length - a.length);
    expect(Math.min(...(long ?? []).map((text) => text.length))).above(
      Math.max(...(short ?? []).map((text) => text.length)),
    );
  });

  it('reports the vectors of each call as soon as they arrive', async () => {
    server.answer(embeddings(() => [1, 0]));
    const indexes: number[] = [];
    const onVectors = async (vectors: readonly { index: number }[]) => {
      indexes.push(...vectors.map(({ index }) => index));
    };
    await embed(
      Array.from({ length: 70 }, () => 'a'),
      { onVectors },
    );
    expect(indexes.sort((a, b) => a - b)).deep.equal(Array.from({ length: 70 }, (_, index) => index));
  });

  it('limits concurrent bulk calls', async () => {
    const released = Promise.withResolvers<void>();
    let open = 0;
    let most = 0;
    server.answer(async (response, body: { input: string[] }) => {
      if (body.input[0] !== 'for a person') {
        open += 1;
        most = Math.max(most, open);
        await released.promise;
        open -= 1;
      }
      embeddings(() => [1, 0])(response, body as never);
    });
    const own = embedder();
    const embedded = own.embed(
      Array.from({ length: 1_000 }, () => 'a'),
      { isBulk: true },
    );
    await until('four calls are under way', async () => open === 4);
    await own.embed(['for a person']);
    expect(server.calls).length(4 + 1);
    released.resolve();
    await embedded;
    expect(server.calls).length(16 + 1);
    expect(most).equal(4);
  });

  for (const [status, message] of [
    [413, 'Payload too large'],
    [400, 'Invalid input: maximum batch size is 10'],
    [422, 'batch size 64 > maximum allowed batch size 10'],
    [400, "This model's maximum context length is 300000 tokens"],
  ] as const) {
    it(`halves batches after ${status} ${message}`, async () => {
      server.answer((response, body: { input: string[] }) => {
        if (body.input.length > 10) return answerError(status, message)(response, body as never);
        embeddings((text) => [text.length, 1])(response, body as never);
      });
      const texts = Array.from({ length: 64 }, (_, index) => 'x'.repeat(index + 1));
      const own = embedder();
      expect((await own.embed(texts)).map((vector) => Math.round((vector[0] ?? 0) / (vector[1] ?? 1)))).deep.equal(
        texts.map((text) => text.length),
      );
      server.calls.length = 0;
      await own.embed(texts);
      expect(Math.max(...sent().map((call) => call.length)), 'the size is remembered').at.most(10);
    });
  }

  it('embeds a text beyond the context window in pieces that cover all of it', async () => {
    const text = Array.from({ length: 100 }, (_, index) => `word${index}`).join(' ');
    const pieces: string[] = [];
    server.answer((response, body: { input: string[] }) => {
      if (body.input.some((input) => input.length > 200)) {
        return answerError(400, 'maximum context length exceeded')(response, body as never);
      }
      if (body.input[0] !== 'short') pieces.push(...body.input);
      embeddings(() => [3, 4])(response, body as never);
    });
    const [long, short] = await embed([text, 'short']);
    expect(pieces.join('')).equal(text);
    for (const vector of [long, short]) expect(vector?.[0]).closeTo(0.6, 1e-6);
  });

  it('stops halving a text that is rejected at any length', async () => {
    server.answer(answerError(400, 'the limit of your account'));
    expect(await appErrorCode(embed(['x'.repeat(1_000)]))).equal('model_rejected');
    expect(server.calls.length).at.most(10);
  });

  it('pauses bulk work for Retry-After, then continues', async () => {
    server.answer((response, body) => {
      if (server.calls.length === 1) answerError(429, 'slow down', { 'retry-after': '1' })(response, body);
      else embeddings(() => [1, 0])(response, body);
    });
    expect(await embed(['a'], { isBulk: true })).length(1);
    const [refused, again] = server.calls;
    expect((again?.atMs ?? 0) - (refused?.atMs ?? 0)).at.least(990);
  });

  it('fails bulk work at once if Retry-After exceeds its timeout', async () => {
    mock.timers.enable({ apis: ['Date'] });
    server.answer(answerError(503, 'maintenance', { 'retry-after': '600' }));
    const fault = await faultOf(embed(['a'], { isBulk: true }));
    expect(fault).include({ code: 'model_unavailable', retryAfterSeconds: 600 });
  });

  it('fails calls of waiting users at once during a pause', async () => {
    mock.timers.enable({ apis: ['Date'] });
    server.answer(answerError(429, 'slow down', { 'retry-after': '600' }));
    const own = embedder();
    await faultOf(own.embed(['a']));
    const fault = await faultOf(own.embed(['a']));
    expect(fault).include({ code: 'model_unavailable', retryAfterSeconds: 600 });
    expect(server.calls).length(1);
  });

  it('times out on a slow or dead service', async () => {
    server.answer(() => undefined);
    expect(await appErrorCode(embedder({ timeoutMs: 30 }).embed(['a']))).equal('model_unavailable');
    const dead = createEmbedder({ baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'key', model: 'model', estimateTokens });
    expect(await appErrorCode(dead.embed(['a']))).equal('model_unavailable');
  });

  it('does not keep the vector size of a single wrong answer', async () => {
    const own = embedder();
    const sizes = [];
    for (const vector of [[1], [1, 0], [1, 0]]) {
      server.answer(embeddings(() => vector));
      const found = await own.embed(['a']).catch(() => null);
      sizes.push(found?.[0]?.length ?? null);
    }
    expect(sizes, 'the change is refused, and then believed').deep.equal([1, null, 2]);
  });

  it('requests the configured dimensions, and rejects others', async () => {
    server.answer(embeddings(() => [1, 0, 0]));
    const own = embedder({ dimensions: 2 });
    expect(own.model).equal('model@2');
    expect(await appErrorCode(own.embed(['a']))).equal('model_response_invalid');
    expect(server.calls[0]?.body).include({ dimensions: 2 });
  });

  it('rejects vectors of another size than before', async () => {
    const own = embedder();
    server.answer(embeddings(() => [1, 0]));
    await own.embed(['a']);
    server.answer(embeddings(() => [1, 0, 0]));
    expect(await appErrorCode(own.embed(['a']))).equal('model_response_invalid');
  });

  for (const [answered, isAccepted] of [
    ['model', true],
    ['publisher/Model', true],
    ['model:latest', true],
    ['model-v2', true],
    ['model-2024-05-01', true],
    ['model-int8', false],
    ['another', false],
  ] as const) {
    it(`${isAccepted ? 'takes' : 'refuses'} an answer of ${answered} for one of the model that it asked`, async () => {
      server.answer(embeddings(() => [1, 0], answered));
      if (isAccepted) expect(await embed(['a'])).length(1);
      else expect(await appErrorCode(embed(['a']))).equal('model_response_invalid');
    });
  }

  it('aborts its other calls when one fails', async () => {
    let closed = 0;
    server.answer((response, body: { input: string[] }) => {
      response.on('close', () => {
        if (!response.writableFinished) closed += 1;
      });
      if (body.input.length < 64) answerError(500, 'broken')(response, body as never);
    });
    expect(await appErrorCode(embed(Array.from({ length: 150 }, () => 'a')))).equal('model_unavailable');
    await until('the others are closed', async () => closed === 2);
  });
});

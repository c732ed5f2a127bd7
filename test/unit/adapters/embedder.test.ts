import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createEmbedder } from '#src/adapters/models/embedder.ts';
import { AppError } from '#src/errors.ts';

type Answer = (response: ServerResponse, texts: string[]) => void;

describe('embedder', () => {
  let server: Server;
  let baseUrl: string;
  let answer: Answer;
  let calls: string[][];

  before(async () => {
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const { input } = JSON.parse(Buffer.concat(chunks).toString()) as { input: string[] };
      calls.push(input);
      answer(response, input);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  after(() => server.close().closeAllConnections());
  beforeEach(() => {
    calls = [];
  });

  const json =
    (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
    (response) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  const embeddings =
    (embed: (text: string) => unknown): Answer =>
    (response, texts) => {
      const data = texts.map((text, index) => ({ object: 'embedding', index, embedding: embed(text) }));
      json(200, { object: 'list', data: data.reverse() })(response, texts);
    };
  const base64 = (vector: number[]) => Buffer.from(Float32Array.from(vector).buffer).toString('base64');

  const embed = (texts: string[], signal?: AbortSignal) =>
    createEmbedder({ baseUrl, apiKey: 'key', model: 'model', estimateTokens: (text) => text.length }).embed(
      texts,
      signal === undefined ? {} : { signal },
    );
  async function faultOf(work: Promise<unknown>): Promise<AppError> {
    const fault: unknown = await work.then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(fault instanceof AppError)) throw new Error(`No AppError: ${String(fault)}`);
    return fault;
  }

  it('gives unit vectors in the order of the texts, from base64 or from numbers', async () => {
    for (const encode of [base64, (vector: number[]) => vector]) {
      answer = embeddings((text) => encode(text === 'a' ? [3, 4] : [0, 2]));
      const [a, b] = await embed(['a', 'b']);
      expect(a?.[0]).closeTo(0.6, 1e-6);
      expect(a?.[1]).closeTo(0.8, 1e-6);
      expect(Array.from(b ?? [])).deep.equal([0, 1]);
    }
  });

  it('sends at most 64 texts at once', async () => {
    answer = embeddings(() => base64([1, 0]));
    expect(await embed(Array.from({ length: 130 }, (_, index) => `text ${index}`))).length(130);
    expect(calls.map((texts) => texts.length)).deep.equal([64, 64, 2]);
  });

  for (const [status, code] of [
    [400, 'model_rejected'],
    [401, 'model_not_configured'],
    [403, 'model_not_configured'],
    [404, 'model_not_configured'],
    [422, 'model_rejected'],
    [429, 'model_unavailable'],
    [500, 'model_unavailable'],
    [503, 'model_unavailable'],
  ] as const) {
    it(`takes a ${status} for ${code}, at the first call`, async () => {
      answer = json(status, { error: { message: 'no', type: 'x', param: null, code: null } });
      expect(await faultOf(embed(['a']))).property('code', code);
      expect(calls).length(1);
    });
  }

  it('takes a used-up quota for something that a person has to mend', async () => {
    answer = json(429, { error: { message: 'no', type: 'x', param: null, code: 'insufficient_quota' } });
    expect(await faultOf(embed(['a']))).property('code', 'model_not_configured');
  });

  it('passes on how long the service wants to be left alone', async () => {
    answer = json(429, { error: { message: 'slow down' } }, { 'retry-after': '7' });
    expect(await faultOf(embed(['a']))).property('retryAfterSeconds', 7);
    const soon = new Date(Date.now() + 30_000).toUTCString();
    answer = json(503, { error: { message: 'slow down' } }, { 'retry-after': soon });
    expect((await faultOf(embed(['a']))).retryAfterSeconds).within(1, 30);
  });

  it('takes a broken connection for an unreachable service', async () => {
    answer = (response) => response.destroy();
    expect(await faultOf(embed(['a']))).property('code', 'model_unavailable');
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"data":', () => response.destroy());
    };
    expect(await faultOf(embed(['a']))).property('code', 'model_unavailable');
  });

  const unusable: Record<string, Answer> = {
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
    'vectors of several sizes': embeddings((text) => (text === 'a' ? [1, 0] : [1, 0, 0])),
  };
  for (const [name, unusableAnswer] of Object.entries(unusable)) {
    it(`refuses an answer with ${name}`, async () => {
      answer = unusableAnswer;
      expect(await faultOf(embed(['a', 'b']))).property('code', 'model_response_invalid');
    });
  }

  it('stops when it is told to, with the reason given', async () => {
    const stop = new AbortController();
    answer = () => stop.abort(new Error('not needed any more'));
    const fault: unknown = await embed(['a'], stop.signal).catch((error: unknown) => error);
    expect(fault).property('message', 'not needed any more');
  });
});

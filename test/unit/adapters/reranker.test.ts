import { expect } from 'chai';
import { createReranker } from '#src/adapters/models/reranker.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  answerError,
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

describe('reranker', () => {
  let server: ScriptedServer;

  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());

  const rerank = (model: string | null = 'reranker-1', signal = new AbortController().signal) =>
    createReranker({ baseUrl: server.baseUrl, apiKey: 'key' }).rerank({
      model,
      query: 'a loan',
      documents: ['a house', 'a loan'],
      signal,
    });
  const results = (...scores: [unknown, unknown][]) =>
    answerJson(200, { results: scores.map(([index, relevance_score]) => ({ index, relevance_score })) });

  it('returns the scores in the order of the documents', async () => {
    server.answer(results([1, 0.9], [0, -3.5]));
    expect(await rerank()).deep.equal([-3.5, 0.9]);
    expect(server.calls[0]?.path).equal('/v1/rerank');
    expect(server.calls[0]?.body).include({ model: 'reranker-1', query: 'a loan' });
  });

  it('sends no model if none is configured', async () => {
    server.answer(results([1, 0.9], [0, 0.1]));
    await rerank(null);
    expect(server.calls[0]?.body).not.property('model');
  });

  for (const [status, code] of [
    [400, 'model_rejected'],
    [401, 'model_not_configured'],
    [404, 'model_not_configured'],
    [429, 'model_unavailable'],
    [500, 'model_unavailable'],
  ] as const) {
    it(`maps the status ${status} to ${code} without a retry`, async () => {
      server.answer(answerError(status, 'no'));
      expect(await appErrorCode(rerank())).equal(code);
      expect(server.calls).length(1);
    });
  }

  const unusable: Record<string, ScriptedAnswer> = {
    'no JSON': (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('<html>'),
    'another shape': answerJson(200, [0.1, 0.9]),
    'too few scores': results([0, 0.5]),
    'the same number twice': results([0, 0.5], [0, 0.5]),
    'a number of no document': results([0, 0.5], [2, 0.5]),
    'something that is no number': results([0, 0.5], [1, null]),
  };
  for (const [name, answer] of Object.entries(unusable)) {
    it(`rejects an answer with ${name}`, async () => {
      server.answer(answer);
      expect(await appErrorCode(rerank())).equal('model_response_invalid');
    });
  }

  it('aborts with the reason of the signal', async () => {
    const stop = new AbortController();
    server.answer(() => stop.abort(new Error('not needed any more')));
    const fault: unknown = await rerank('reranker-1', stop.signal).catch((error: unknown) => error);
    expect(fault).property('message', 'not needed any more');
  });
});

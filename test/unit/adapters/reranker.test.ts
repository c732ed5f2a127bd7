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
      ...{ model, query: 'a loan', documents: ['a house', 'a loan'], signal },
    });
  const results = (...scores: [unknown, unknown][]) =>
    answerJson(200, { results: scores.map(([index, relevance_score]) => ({ index, relevance_score })) });

  it('returns the scores in the order of the documents, and sends a model only if one is configured', async () => {
    server.answer(results([1, 0.9], [0, -3.5]));
    expect(await rerank()).deep.equal([-3.5, 0.9]);
    expect(server.calls[0]?.path).equal('/v1/rerank');
    expect(server.calls[0]?.body).include({ model: 'reranker-1', query: 'a loan' });
    await rerank(null);
    expect(server.calls[1]?.body).not.property('model');
  });

  const faults: [what: string, answer: ScriptedAnswer, code: string][] = [
    ['an error response', answerError(429, 'no'), 'model_unavailable'],
    ['no JSON', (response) => response.writeHead(200).end('<html>'), 'model_response_invalid'],
    ['another shape', answerJson(200, [0.1, 0.9]), 'model_response_invalid'],
    ['too few scores', results([0, 0.5]), 'model_response_invalid'],
    ['the same number twice', results([0, 0.5], [0, 0.5]), 'model_response_invalid'],
    ['a number of no document', results([0, 0.5], [2, 0.5]), 'model_response_invalid'],
    ['something that is no number', results([0, 0.5], [1, null]), 'model_response_invalid'],
  ];
  it('fails without a retry after an error or an answer of another shape', async () => {
    for (const [what, answer, code] of faults) {
      server.answer(answer);
      expect(await appErrorCode(rerank()), what).equal(code);
      expect(server.calls, what).length(1);
    }
  });

  it('aborts with the reason of the signal', async () => {
    const stop = new AbortController();
    server.answer(() => stop.abort(new Error('not needed any more')));
    const fault: unknown = await rerank('reranker-1', stop.signal).catch((error: unknown) => error);
    expect(fault).property('message', 'not needed any more');
  });
});

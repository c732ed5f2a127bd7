import { expect } from 'chai';
import { createModelCatalog } from '#src/adapters/models/model-catalog.ts';
import { createReranker } from '#src/adapters/models/reranker.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  answerError,
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

describe('the client of a model service', () => {
  let server: ScriptedServer;
  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());

  describe('when listing models', () => {
    const list = () => createModelCatalog({ baseUrl: server.baseUrl, apiKey: 'key' }).list();
    const offered = async (...data: unknown[]) => {
      server.answer(answerJson(200, { object: 'list', data }));
      return list();
    };

    it('returns the fields of each model, and reads the context window from any field that servers use', async () => {
      const told = {
        context_window: 256,
        context_budget: 100,
        query_prefix: 'Find: ',
        unrelated_similarity: 0.7,
        languages: ['en'],
      };
      expect(
        await offered({ id: 'm', kind: 'embedding', dimensions: 384, ...told, structured_output: false, local: true }),
      ).deep.equal([
        {
          ...{ id: 'm', kind: 'embedding', dimensions: 384, contextWindow: 256, contextBudget: 100 },
          ...{ queryPrefix: 'Find: ', unrelatedSimilarity: 0.7, languages: ['en'] },
          ...{ rerankingType: null, writesJson: false, isLocal: true },
        },
      ]);
      const windows = [{ context_length: 8_000 }, { max_model_len: 8_000 }, { max_context_length: 8_000 }, {}];
      const models = await offered(...windows.map((window, index) => ({ id: `chat-${index}`, ...window })));
      expect(models.map((model) => model.contextWindow)).deep.equal([8_000, 8_000, 8_000, null]);
    });

    it('guesses the kind of a model from its whole name if the list does not contain the kind', async () => {
      const kinds = {
        chat: ['gpt-4.1', 'meta-llama/Llama-3.1-8B-Instruct', 'kimi-k2-instruct', 'influx-7b', 'eclipse-7b'],
        embedding: ['text-embedding-3-small', 'sentence-transformers/all-mpnet-base-v2', 'voyage-3'],
        reranker: ['BAAI/bge-reranker-v2-m3'],
        none: ['whisper-1', 'dall-e-3', 'gpt-3.5-turbo-instruct', 'tts-1', 'gpt-4o-mini-tts', 'sora-2'],
      };
      kinds.embedding.push('intfloat/multilingual-e5-large-instruct');
      kinds.none.push('black-forest-labs/FLUX.1-dev');
      const models = await offered(
        ...Object.values(kinds).flatMap((ids) => ids.map((id) => ({ id, object: 'model' }))),
      );
      const idsOf = (kind: string) => models.filter((model) => model.kind === kind).map(({ id }) => id);
      const { none, ...others } = kinds;
      for (const [kind, ids] of Object.entries(others)) expect(idsOf(kind)).deep.equal(ids);
      expect(models.filter(({ id }) => none.includes(id))).deep.equal([]);
      expect(models.find(({ kind }) => kind === 'reranker')?.rerankingType).equal('cross_encoder');
    });

    it('ignores invalid entries, and limits the number of entries', async () => {
      expect(await offered(null, 'm', {}, { id: 7 })).deep.equal([]);
      expect(await offered(...Array.from({ length: 5_000 }, (_, index) => ({ id: `chat-${index}` })))).length(1_000);
    });

    it('returns an empty list if the provider answers 404, and fails after other errors or a wrong reply', async () => {
      server.answer(answerError(404, 'no'));
      expect(await list()).deep.equal([]);
      server.answer(answerError(500, 'broken'));
      expect(await appErrorCode(list())).equal('model_unavailable');
      server.answer(answerJson(200, { models: [] }));
      expect(await appErrorCode(list())).equal('model_response_invalid');
    });
  });

  describe('when reranking', () => {
    const rerank = (model: string | null = 'reranker-1', signal = new AbortController().signal) =>
      createReranker({ baseUrl: server.baseUrl, apiKey: 'key' }).rerank({
        ...{ model, query: 'a loan', documents: ['a house', 'a loan'], signal },
      });
    const results = (...scores: [unknown, unknown][]) =>
      answerJson(200, { results: scores.map(([index, relevance_score]) => ({ index, relevance_score })) });

    it('returns the scores in the order of the documents, and sends a model name only if configured', async () => {
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
    it('fails without a retry after an error or a response of the wrong shape', async () => {
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
});

import { expect } from 'chai';
import { createModelCatalog } from '#src/adapters/models/model-catalog.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { answerError, answerJson, type ScriptedServer, startScriptedServer } from '#test/support/scripted-server.ts';

describe('model catalog', () => {
  let server: ScriptedServer;
  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());

  const list = () => createModelCatalog({ baseUrl: server.baseUrl, apiKey: 'key' }).list();
  const offered = async (...data: unknown[]) => {
    server.answer(answerJson(200, { object: 'list', data }));
    return list();
  };

  it('reads the fields of a list of models', async () => {
    const told = { context_window: 256, context_budget: 100, query_prefix: 'Find: ', structured_output: false };
    expect(await offered({ id: 'm', kind: 'embedding', dimensions: 384, ...told, local: true })).deep.equal([
      {
        ...{ id: 'm', kind: 'embedding', dimensions: 384, contextWindow: 256, contextBudget: 100 },
        ...{ queryPrefix: 'Find: ', rerankingType: null, writesJson: false, isLocal: true },
      },
    ]);
  });

  it('reads the context window under the names of several servers', async () => {
    const windows = [{ context_length: 8_000 }, { max_model_len: 8_000 }, { max_context_length: 8_000 }, {}];
    const models = await offered(...windows.map((window, index) => ({ id: `chat-${index}`, ...window })));
    expect(models.map((model) => model.contextWindow)).deep.equal([8_000, 8_000, 8_000, null]);
  });

  it('guesses the kind of a model from its whole name if the list does not give it', async () => {
    const kinds = {
      chat: ['gpt-4.1', 'meta-llama/Llama-3.1-8B-Instruct', 'kimi-k2-instruct', 'influx-7b', 'eclipse-7b'],
      embedding: ['text-embedding-3-small', 'sentence-transformers/all-mpnet-base-v2', 'voyage-3'],
      reranker: ['BAAI/bge-reranker-v2-m3'],
      none: ['whisper-1', 'dall-e-3', 'gpt-3.5-turbo-instruct', 'tts-1', 'gpt-4o-mini-tts', 'sora-2'],
    };
    kinds.embedding.push('intfloat/multilingual-e5-large-instruct');
    kinds.none.push('black-forest-labs/FLUX.1-dev');
    const models = await offered(...Object.values(kinds).flatMap((ids) => ids.map((id) => ({ id, object: 'model' }))));
    const idsOf = (kind: string) => models.filter((model) => model.kind === kind).map(({ id }) => id);
    const { none, ...others } = kinds;
    for (const [kind, ids] of Object.entries(others)) expect(idsOf(kind)).deep.equal(ids);
    expect(models.filter(({ id }) => none.includes(id))).deep.equal([]);
    expect(models.find(({ kind }) => kind === 'reranker')?.rerankingType).equal('cross_encoder');
  });

  it('ignores invalid entries, and limits their number', async () => {
    expect(await offered(null, 'm', {}, { id: 7 })).deep.equal([]);
    expect(await offered(...Array.from({ length: 5_000 }, (_, index) => ({ id: `chat-${index}` })))).length(1_000);
  });

  it('is empty if the provider answers 404, and fails with other errors', async () => {
    server.answer(answerError(404, 'no'));
    expect(await list()).deep.equal([]);
    server.answer(answerError(500, 'broken'));
    expect(await appErrorCode(list())).equal('model_unavailable');
    server.answer(answerJson(200, { models: [] }));
    expect(await appErrorCode(list())).equal('model_response_invalid');
  });
});

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
    const model = {
      id: 'm',
      kind: 'embedding',
      dimensions: 384,
      context_window: 256,
      context_budget: 100,
      query_prefix: 'Find: ',
      structured_output: false,
      local: true,
    };
    expect(await offered(model)).deep.equal([
      {
        id: 'm',
        kind: 'embedding',
        dimensions: 384,
        contextWindow: 256,
        contextBudget: 100,
        queryPrefix: 'Find: ',
        rerankingType: null,
        writesJson: false,
        isLocal: true,
      },
    ]);
  });

  it('reads the context window under the names of several servers', async () => {
    const windows = [{ context_length: 8_000 }, { max_model_len: 8_000 }, { max_context_length: 8_000 }, {}];
    const models = await offered(...windows.map((window, index) => ({ id: `chat-${index}`, ...window })));
    expect(models.map((model) => model.contextWindow)).deep.equal([8_000, 8_000, 8_000, null]);
  });

  it('guesses the kind of a model from its name if the list does not give it', async () => {
    const ids = ['gpt-4.1', 'text-embedding-3-small', 'BAAI/bge-reranker-v2-m3', 'whisper-1', 'dall-e-3'];
    const models = await offered(...ids.map((id) => ({ id, object: 'model', owned_by: 'x' })));
    expect(models.map(({ id, kind }) => [id, kind])).deep.equal([
      ['gpt-4.1', 'chat'],
      ['text-embedding-3-small', 'embedding'],
      ['BAAI/bge-reranker-v2-m3', 'reranker'],
    ]);
    expect(models[2]?.rerankingType).equal('cross_encoder');
  });

  it('does not guess a wrong kind from a part of a name', async () => {
    const chatModels = ['meta-llama/Llama-3.1-8B-Instruct', 'kimi-k2-instruct', 'influx-7b', 'eclipse-7b'];
    const others = ['gpt-3.5-turbo-instruct', 'tts-1', 'gpt-4o-mini-tts', 'black-forest-labs/FLUX.1-dev', 'sora-2'];
    const embedders = [
      'sentence-transformers/all-mpnet-base-v2',
      'intfloat/multilingual-e5-large-instruct',
      'voyage-3',
    ];
    const models = await offered(...[...chatModels, ...others, ...embedders].map((id) => ({ id })));
    const ofKind = (kind: string) => models.filter((model) => model.kind === kind).map(({ id }) => id);
    expect(ofKind('chat')).deep.equal(chatModels);
    expect(ofKind('embedding')).deep.equal(embedders);
  });

  it('ignores invalid entries, and limits their number', async () => {
    expect(await offered(null, 'm', {}, { id: 7 })).deep.equal([]);
    const many = Array.from({ length: 5_000 }, (_, index) => ({ id: `chat-${index}` }));
    expect(await offered(...many)).length(1_000);
  });

  it('returns an empty list if the provider answers 404', async () => {
    server.answer(answerError(404, 'no'));
    expect(await list()).deep.equal([]);
  });

  it('maps errors of a provider', async () => {
    server.answer(answerError(500, 'broken'));
    expect(await appErrorCode(list())).equal('model_unavailable');
    server.answer(answerError(401, 'no'));
    expect(await appErrorCode(list())).equal('model_not_configured');
    server.answer(answerJson(200, { models: [] }));
    expect(await appErrorCode(list())).equal('model_response_invalid');
  });
});

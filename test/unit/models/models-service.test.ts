import { expect } from 'chai';
import pino from 'pino';
import { priceListVersion } from '#src/domain/agents/prices.ts';
import { appError } from '#src/errors.ts';
import { createModelsService } from '#src/modules/models/models.service.ts';
import type { ListedModel } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const unstated = {
  contextWindow: null,
  contextBudget: null,
  dimensions: null,
  queryPrefix: null,
  unrelatedSimilarity: null,
  languages: null,
  rerankingType: null,
};
const provided = (id: string, kind: ListedModel['kind'], more: Partial<ListedModel> = {}): ListedModel => ({
  id,
  kind,
  ...unstated,
  writesJson: true,
  isLocal: false,
  ...more,
});
const chat1 = provided('chat-1', 'chat');
const chat2 = provided('chat-2', 'chat');
const quoting = provided('chat-1', 'chat', { writesJson: false });
const judge = provided('judge-1', 'reranker', { rerankingType: 'llm' });
const reranker = provided('reranker-1', 'reranker', { rerankingType: 'cross_encoder' });

/** The service with `chat-1` and `embedding-1` in the settings, and the models that its provider lists, if it answers. */
function serve(listed: ListedModel[] | null, { hasReranker = false } = {}) {
  const state = { listed, nowMs: 0, loads: 0, warnings: [] as object[] };
  const models = createModelsService({
    catalog: {
      list: async () => {
        state.loads += 1;
        if (state.listed === null) throw appError('model_unavailable');
        return state.listed;
      },
    },
    settings: {
      chatModel: 'chat-1',
      evaluatorModel: 'chat-1',
      embeddingModel: 'embedding-1',
      embeddingDimensions: null,
      reranker: { model: null, isConfigured: hasReranker },
      prices: { 'chat-2': { input: 1, cachedInput: 1, output: 2, version: 'of the settings' } },
    },
    logger: pino({ level: 'warn' }, { write: (line) => state.warnings.push(JSON.parse(line)) }),
    now: () => state.nowMs,
  });
  const listAfter = async (ms: number) => {
    state.nowMs += ms;
    return models.list();
  };
  return { models, state, listAfter };
}

describe('the available models', () => {
  it('are listed with those of the settings first, and with details from the provider', async () => {
    const local = provided('chat-1', 'chat', { contextWindow: 4_096, contextBudget: 1_000, isLocal: true });
    const { models } = serve([chat2, local, judge, reranker]);
    const list = await models.list();
    expect(list.map(({ id }) => id)).deep.equal(['chat-1', 'chat-2', 'embedding-1', 'reranker-1', 'judge-1']);
    const defaults = list.filter(({ isDefault }) => isDefault);
    expect(defaults.map(({ id }) => id)).deep.equal(['chat-1', 'embedding-1', 'reranker-1']);
    expect(list[0]).include({ contextWindow: 4_096, isLocal: true });
    for (const [id, window, budget, timeoutMs] of [
      ['chat-1', 4_096, 1_000, null],
      ['chat-2', null, null, 120_000],
    ] as const) {
      expect(await models.contextWindow(id)).equal(window);
      expect(await models.contextBudget(id)).equal(budget);
      expect(await models.answerTimeoutMs(id), 'local models have no timeout').equal(timeoutMs);
    }
    expect(await models.priceOf('chat-1')).include({ input: 0, version: priceListVersion });
    expect(await models.priceOf('chat-2')).include({ input: 1, version: 'of the settings' });
    expect(await models.priceOf('judge-1')).equal(null);
  });

  it('include a reranker if the settings or the provider name a reranker', async () => {
    const listed = [judge, reranker];
    for (const [{ models }, type, expected] of [
      [serve([]), 'cross_encoder', null],
      [serve(listed), 'cross_encoder', { model: 'reranker-1', isLocal: false }],
      [serve(listed), 'llm', { model: 'judge-1', isLocal: false }],
      [serve(null, { hasReranker: true }), 'cross_encoder', { model: null, isLocal: false }],
      [serve(null, { hasReranker: true }), 'llm', null],
    ] as const) {
      expect(await models.reranker(type)).deep.equal(expected);
    }
    const configured = await serve(listed, { hasReranker: true }).models.list();
    const defaults = configured.filter(({ isDefault }) => isDefault);
    expect(defaults.map(({ kind }) => kind)).deep.equal(['chat', 'embedding']);
  });

  it('have the query prefix and the similarity of unrelated texts that the provider names for an embedding model, also if its vectors are cut to fewer dimensions', async () => {
    const listed = ['Seek: ', 'Find: '].map((queryPrefix, n) =>
      provided(`embedding-${n}`, 'embedding', { queryPrefix, unrelatedSimilarity: n / 2 }),
    );
    const { models } = serve(listed);
    const ids = ['embedding-0', 'embedding-1@256', 'embedding-2'];
    expect(await Promise.all(ids.map(models.queryPrefix))).deep.equal(['Seek: ', 'Find: ', '']);
    expect(await Promise.all(ids.map(models.unrelatedSimilarity))).deep.equal([0, 0.5, 0]);
    expect(await serve(null).models.queryPrefix('embedding-1')).equal('');
  });

  it('are loaded at most once a minute, or sooner after a failure, and stay listed during an outage', async () => {
    const { models, state, listAfter } = serve([chat2]);
    await Promise.all([models.list(), models.list()]);
    await listAfter(59_000);
    expect(state.loads).equal(1);
    state.listed = null;
    await listAfter(2_000);
    expect(state.loads).equal(2);
    await models.requireChatModel('chat-2');
    // Configured models that are not listed are logged once.
    state.listed = [chat2];
    await listAfter(61_000);
    const unlisted = state.warnings.flatMap((warning) => Object(warning).models ?? []);
    expect(unlisted).deep.equal(['chat-1', 'embedding-1']);

    const broken = serve(null);
    expect(await broken.models.list()).length(2);
    await broken.listAfter(9_000);
    expect(broken.state.loads).equal(1);
    await broken.listAfter(2_000);
    expect(broken.state.loads).equal(2);
  });

  it('are accepted; any other model is rejected as unknown, or as unavailable until the list is loaded', async () => {
    expect(await appErrorCode(serve([]).models.requireChatModel('chat-2'))).equal('unknown_model');
    const unlisted = serve(null).models;
    await unlisted.requireChatModel('chat-1');
    expect(await appErrorCode(unlisted.requireChatModel('chat-2'))).equal('model_unavailable');
    const { models } = serve([provided('embedding-2', 'embedding'), chat1]);
    for (const id of ['embedding-1', 'embedding-2']) expect(await models.refusalOf('embedding', id)).equal(null);
    const refusal = await models.refusalOf('embedding', 'chat-1', 'embedding.model');
    expect(refusal).include({ code: 'unknown_model' });
    expect(refusal?.errors?.map(({ path }) => path)).deep.equal(['embedding.model']);
  });

  it('provide a judge that writes JSON: the requested model, else that of the settings, else another', async () => {
    for (const [listed, asked, expected] of [
      [[chat2], undefined, 'chat-1'],
      [null, undefined, 'chat-1'],
      [[quoting, chat2], undefined, 'chat-2'],
      [[quoting], undefined, 'evaluator_unavailable'],
      [[quoting, chat2], 'chat-2', 'chat-2'],
      [[quoting, chat2], 'chat-1', 'validation_failed'],
      [[quoting, chat2], 'chat-3', 'unknown_model'],
    ] as const) {
      const { models } = serve(listed && [...listed]);
      const evaluator = models.evaluator(asked && { id: asked, path: 'evaluator_model' });
      const isRefused = expected.includes('_');
      expect(await (isRefused ? appErrorCode(evaluator) : evaluator)).equal(expected);
    }
  });
});

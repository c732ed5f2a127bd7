import { expect } from 'chai';
import pino from 'pino';
import { priceListVersion } from '#src/domain/agents/prices.ts';
import { appError } from '#src/errors.ts';
import { createModelsService } from '#src/modules/models/models.service.ts';
import type { ListedModel } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

describe('the models of a deployment', () => {
  const provided = (id: string, kind: ListedModel['kind'], more: Partial<ListedModel> = {}): ListedModel => {
    return {
      id,
      kind,
      contextWindow: null,
      contextBudget: null,
      dimensions: null,
      queryPrefix: null,
      rerankingType: null,
      writesJson: true,
      isLocal: false,
      ...more,
    };
  };

  function create(
    catalog: () => ListedModel[],
    reranker: { model: string | null; isConfigured: boolean },
    embeddingModel = 'embedding-1',
  ) {
    let nowMs = 0;
    let loads = 0;
    const warnings: object[] = [];
    const models = createModelsService({
      catalog: {
        list: async () => {
          loads += 1;
          return catalog();
        },
      },
      settings: {
        chatModel: 'chat-1',
        evaluatorModel: 'chat-1',
        embeddingModel,
        embeddingDimensions: null,
        reranker,
        prices: { 'chat-2': { input: 1, cachedInput: 1, output: 2, version: 'of the settings' } },
      },
      logger: pino({ level: 'warn' }, { write: (line) => warnings.push(JSON.parse(line)) }),
      now: () => nowMs,
    });
    return {
      models,
      warnings,
      loads: () => loads,
      pass: (ms: number) => {
        nowMs += ms;
      },
    };
  }
  const none = { model: null, isConfigured: false };
  const unreachable = () => {
    throw appError('model_unavailable');
  };

  it('lists models of the settings first, with details from the provider', async () => {
    const { models } = create(
      () => [
        provided('chat-2', 'chat'),
        provided('chat-1', 'chat', { contextWindow: 4_096, contextBudget: 1_000, isLocal: true }),
        provided('judge-1', 'reranker', { rerankingType: 'llm' }),
        provided('reranker-1', 'reranker', { rerankingType: 'cross_encoder' }),
      ],
      none,
    );
    const list = await models.list();
    expect(list.map(({ id, kind, isDefault }) => [id, kind, isDefault])).deep.equal([
      ['chat-1', 'chat', true],
      ['chat-2', 'chat', false],
      ['embedding-1', 'embedding', true],
      ['reranker-1', 'reranker', true],
      ['judge-1', 'reranker', false],
    ]);
    expect(list[0]).include({ contextWindow: 4_096, isLocal: true });
    expect(await models.contextBudget('chat-1')).equal(1_000);
    expect(await models.contextBudget('chat-2')).equal(null);
    expect(list.map((model) => model.price?.output ?? null)).deep.equal([0, 2, null, null, null]);
    expect(await models.contextWindow('chat-1')).equal(4_096);
    expect(await models.contextWindow('chat-2')).equal(null);
    expect(await models.priceOf('chat-1')).include({ input: 0, version: priceListVersion });
    expect(await models.priceOf('chat-2')).include({ input: 1, version: 'of the settings' });
    expect(await models.priceOf('judge-1')).equal(null);
  });

  it('include a reranker if one is configured or listed', async () => {
    const listed = () => [
      provided('j', 'reranker', { rerankingType: 'llm' }),
      provided('r', 'reranker', { rerankingType: 'cross_encoder' }),
    ];
    expect(await create(() => [], none).models.reranker('cross_encoder')).equal(null);
    expect(await create(listed, none).models.reranker('cross_encoder')).deep.equal({ model: 'r', isLocal: false });
    expect(await create(listed, none).models.reranker('llm')).deep.equal({ model: 'j', isLocal: false });
    const unnamed = create(unreachable, { model: null, isConfigured: true });
    expect(await unnamed.models.reranker('cross_encoder')).deep.equal({ model: null, isLocal: false });
    expect(await unnamed.models.reranker('llm')).equal(null);
    const elsewhere = create(listed, { model: null, isConfigured: true });
    const defaults = (await elsewhere.models.list()).filter(({ isDefault }) => isDefault);
    expect(
      defaults.map(({ kind }) => kind),
      'a server of its own ranks, and its model has no name',
    ).deep.equal(['chat', 'embedding']);
  });

  it('give the query prefix of an embedding model, also for shortened vectors', async () => {
    const listed = () => [
      provided('embedding-0', 'embedding', { queryPrefix: 'Seek: ' }),
      provided('embedding-1', 'embedding', { queryPrefix: 'Find: ' }),
    ];
    const { models } = create(listed, none);
    expect(await models.queryPrefix('embedding-0')).equal('Seek: ');
    expect(await models.queryPrefix('embedding-1@256')).equal('Find: ');
    expect(await models.queryPrefix('embedding-2')).equal('');
    expect(await create(unreachable, none).models.queryPrefix('embedding-1')).equal('');
  });

  it('are loaded at most once a minute, and sooner after a failure', async () => {
    const { models, loads, pass } = create(() => [], none);
    await Promise.all([models.list(), models.list()]);
    pass(59_000);
    await models.list();
    expect(loads()).equal(1);
    pass(2_000);
    await models.list();
    expect(loads()).equal(2);

    const broken = create(unreachable, none);
    expect(await broken.models.list()).length(2);
    broken.pass(9_000);
    await broken.models.list();
    expect(broken.loads()).equal(1);
    broken.pass(2_000);
    await broken.models.list();
    expect(broken.loads()).equal(2);
  });

  it('that are configured but not listed are logged once', async () => {
    const { models, warnings, pass } = create(() => [provided('chat-1', 'chat'), provided('chat-2', 'chat')], none);
    await models.list();
    pass(61_000);
    await models.list();
    expect(warnings).length(1);
    expect(warnings[0]).property('models').deep.equal(['embedding-1']);
    for (const quiet of [() => [], () => [provided('chat-1', 'chat'), provided('embedding-1', 'embedding')]]) {
      const other = create(quiet, none);
      await other.models.list();
      expect(other.warnings).deep.equal([]);
    }
  });

  it('stay listed during an outage of the provider', async () => {
    let isUp = true;
    const { models, pass } = create(() => (isUp ? [provided('chat-2', 'chat')] : unreachable()), none);
    await models.list();
    isUp = false;
    pass(61_000);
    await models.list();
    await models.requireChatModel('chat-2');
  });

  it('are rejected if unknown, and unavailable until the list was loaded', async () => {
    expect(await appErrorCode(create(() => [], none).models.requireChatModel('chat-2'))).equal('unknown_model');
    const { models } = create(unreachable, none);
    await models.requireChatModel('chat-1');
    expect(await appErrorCode(models.requireChatModel('chat-2'))).equal('model_unavailable');
  });

  it('are rejected for another kind of use, naming the field', async () => {
    const { models } = create(() => [provided('embedding-2', 'embedding'), provided('chat-1', 'chat')], none);
    for (const offered of ['embedding-1', 'embedding-2'])
      expect(await models.refusalOf('embedding', offered)).equal(null);
    const refusal = await models.refusalOf('embedding', 'chat-1', 'embedding.model');
    expect(refusal).include({ code: 'unknown_model' });
    expect(refusal?.errors?.map(({ path }) => path)).deep.equal(['embedding.model']);
  });

  it('judge with the model of the settings, or the first that can if that one only quotes', async () => {
    const quotes = provided('chat-1', 'chat', { writesJson: false });
    expect(await create(() => [provided('chat-2', 'chat')], none).models.evaluator()).equal('chat-1');
    expect(await create(unreachable, none).models.evaluator()).equal('chat-1');
    expect(await create(() => [quotes, provided('chat-2', 'chat')], none).models.evaluator()).equal('chat-2');
    expect(await appErrorCode(create(() => [quotes], none).models.evaluator())).equal('evaluator_unavailable');
  });

  it('have no background timeout if they run on the same machine', async () => {
    const { models } = create(() => [provided('chat-1', 'chat', { isLocal: true }), provided('chat-2', 'chat')], none);
    expect(await models.answerTimeoutMs('chat-1')).equal(null);
    expect(await models.answerTimeoutMs('chat-2')).equal(120_000);
  });

  it('judge with the model of the request if it exists and can judge', async () => {
    const { models } = create(
      () => [provided('chat-1', 'chat', { writesJson: false }), provided('chat-2', 'chat')],
      none,
    );
    const named = (id: string) => models.evaluator({ id, path: 'evaluator_model' });
    expect(await named('chat-2')).equal('chat-2');
    expect(await appErrorCode(named('chat-1'))).equal('validation_failed');
    expect(await appErrorCode(named('chat-3'))).equal('unknown_model');
  });
});

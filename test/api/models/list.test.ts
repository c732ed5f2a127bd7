import { expect } from 'chai';
import { modelListSchema } from '#src/modules/models/models.routes.ts';
import type { Member } from '#test/support/client.ts';
import { startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

describe('GET /models', () => {
  const list = async (member: Member) => modelListSchema.parse((await member.get('/models', 200)).body).items;

  it('200: lists the packaged models', async () => {
    const models = await list(await (await stack()).signUp());
    const chosen = models.filter((model) => model.default);
    expect(chosen.map(({ id, kind }) => [kind, id]).slice(0, 2)).deep.equal([
      ['chat', 'extractive-1'],
      ['embedding', 'all-minilm-l6-v2-int8-r2'],
    ]);
    expect(chosen[0]).deep.include({ context_window: 32_000, prices: { input: 0, cached_input: 0, output: 0 } });
    expect(chosen[1]).include({ dimensions: 384 });
  });

  it('401: without a token', async () => {
    await (await stack()).anonymous.get('/models', 401);
  });

  describe('with a provider', () => {
    let own: Stack;
    let member: Member;
    let provider: Awaited<ReturnType<typeof startScriptedModel>>;

    before(async () => {
      provider = await startScriptedModel();
      provider.offer([
        { id: 'big', context_length: 128_000 },
        { id: 'text-embedding-x', dimensions: 3_072 },
        { id: 'rerank-x', local: true },
      ]);
      own = await startStack(
        {
          OPENAI_BASE_URL: provider.baseUrl,
          CHAT_MODEL: 'small',
          EMBEDDING_MODEL: 'text-embedding-x',
          EMBEDDING_DIMENSIONS: '256',
          MODEL_PRICES: '{"big": {"input": 2, "cached_input": 1, "output": 8}}',
        },
        { workers: false },
      );
      member = await own.signUp();
    });
    after(async () => {
      await own.close();
      await provider.close();
    });

    it('200: merges models of the settings and of the provider list', async () => {
      const models = await list(member);
      expect(models.map(({ id, kind, default: isDefault }) => [kind, id, isDefault])).deep.equal([
        ['chat', 'small', true],
        ['chat', 'big', false],
        ['embedding', 'text-embedding-x@256', true],
        ['embedding', 'text-embedding-x', false],
        ['reranker', 'rerank-x', true],
      ]);
      expect(models[0]).include({ context_window: null, prices: null, local: false });
      expect(models[1]).deep.include({
        context_window: 128_000,
        prices: { input: 2, cached_input: 1, output: 8 },
      });
      expect(models[2]).include({ dimensions: 256 });
      expect(models[4]).include({ local: true });
    });

    it('lets drafts name listed models only', async () => {
      await member.post('/agent-drafts', { chat_model: 'big' }, 201);
      const { body } = await member.post('/agent-drafts', { chat_model: 'text-embedding-x' }, 422);
      expect(body).include({ code: 'unknown_model' });
    });

    it('enables reranking in the default configuration of documents', async () => {
      const { body } = await member.post(
        '/documents/paste',
        { name: 'Note', content: 'Text.', source_format: 'text' },
        201,
      );
      const { id } = body as { id: string };
      const [document] = await own.container.db('documents').where({ id });
      expect(document.ragConfig.reranking).deep.equal({ enabled: true, rerankerType: 'cross_encoder', topK: 8 });
      expect(document.ragConfig.embedding).deep.equal({ model: 'text-embedding-x@256' });
    });
  });
});

import { expect } from 'chai';
import { modelListSchema } from '#src/modules/models/models.routes.ts';
import { anUpload } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { startScriptedModel } from '#test/support/scripted-model.ts';
import { stack, startStack } from '#test/support/stack.ts';

describe('GET /models', () => {
  const list = async (member: Member) => modelListSchema.parse((await member.get('/models', 200)).body).items;

  it('200: lists the models that come with the service if no others are configured', async () => {
    const models = await list(await (await stack()).signUp());
    const [chat, embedding] = models.filter((model) => model.default);
    expect(chat).deep.include({ id: 'extractive-1', kind: 'chat', context_window: 32_000, local: true });
    expect(chat?.prices).deep.equal({ input: 0, cached_input: 0, output: 0 });
    expect(embedding).include({ id: 'all-minilm-l6-v2-int8-r2', kind: 'embedding', dimensions: 384 });
  });

  it('200: lists the models of the settings and of the provider; drafts can use the chat models', async () => {
    const provider = await startScriptedModel();
    provider.offer([
      { id: 'big', context_length: 128_000 },
      { id: 'text-embedding-x', dimensions: 3_072 },
      { id: 'rerank-x' },
    ]);
    const settings = {
      OPENAI_BASE_URL: provider.baseUrl,
      CHAT_MODEL: 'small',
      EMBEDDING_MODEL: 'text-embedding-x',
      EMBEDDING_DIMENSIONS: '256',
      MODEL_PRICES: '{"big": {"input": 2, "cached_input": 1, "output": 8}}',
    };
    const own = await startStack(settings, { workers: false });
    try {
      const member = await own.signUp();
      const models = await list(member);
      expect(models.map(({ id, kind, default: isDefault }) => [kind, id, isDefault])).deep.equal([
        ['chat', 'small', true],
        ['chat', 'big', false],
        ['embedding', 'text-embedding-x@256', true],
        ['embedding', 'text-embedding-x', false],
        ['reranker', 'rerank-x', true],
      ]);
      expect(models[0]).include({ context_window: null, prices: null, local: false });
      expect(models[1]).deep.include({ context_window: 128_000, prices: { input: 2, cached_input: 1, output: 8 } });
      expect(models[2]?.dimensions).equal(256);
      // New documents use a reranker of the deployment, unlike the packaged one.
      const { id } = await anUpload(member, { name: 'note.txt', content: 'Some words.' }, { ingest: 'false' });
      const { config } = Object((await member.get(`/rag/config/${id}`, 200)).body);
      expect(config.reranking).include({ enabled: true, reranker_type: 'cross_encoder' });

      await member.post('/agent-drafts', { chat_model: 'big' }, 201);
      const refused = await member.post('/agent-drafts', { chat_model: 'text-embedding-x' }, 422);
      expect(refused.body).include({ code: 'unknown_model' });
    } finally {
      await own.close();
      await provider.close();
    }
  });
});

import { expect } from 'chai';
import { ingestRequestResultSchema, type RagConfigDto, ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, readDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { wordVector } from '#test/support/indexed-documents.ts';
import { embeddedTexts, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

describe('the configuration of a document', () => {
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;
  let id: string;
  before(async () => {
    model = await startScriptedModel();
    model.offer([
      { id: 'small', kind: 'embedding' },
      { id: 'large', kind: 'embedding', query_prefix: 'query: ' },
      { id: 'extractive-1', kind: 'chat' },
    ]);
    model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      const dimensions = body.model === 'small' ? 128 : 256;
      const embed = (text: string) => [...wordVector(body.model, text).subarray(0, dimensions)];
      answerEmbeddings(embed, body.model)(response, body as never);
    });
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'small' });
  });
  after(async () => {
    await stack.close();
    await model.close();
  });
  beforeEach(async () => {
    ada = await stack.signUp();
    id = await anIngestedDocument(ada, 'Hours', 'The loan counter opens at nine.');
  });

  const read = async () => ragConfigResultSchema.parse((await ada.get(`/rag/config/${id}`, 200)).body).config;
  const put = async (config: object, status: number, as = ada) =>
    (await as.put(`/rag/config/${id}`, config, status)).body;
  const withModel = async (name: string) => ({ ...(await read()), embedding: { model: name } });

  it('is the default of the deployment at first, and can only be replaced as a whole', async () => {
    const first: RagConfigDto = {
      chunking: { method: 'token', target_tokens: 400, overlap_tokens: 60 },
      retrieval: { mode: 'hybrid', rrf_k: 60, word_match_limit: 50, vector_limit: 50, min_vector_similarity: 0.25 },
      reranking: { enabled: false, reranker_type: 'cross_encoder', top_k: 8 },
      embedding: { model: 'small' },
    };
    expect(await read()).deep.equal(first);
    const changed: RagConfigDto = {
      chunking: { method: 'semantic', target_tokens: 8192, overlap_tokens: 0 },
      retrieval: { mode: 'vector', rrf_k: 1, word_match_limit: 1, vector_limit: 7, min_vector_similarity: 0 },
      reranking: { enabled: true, reranker_type: 'llm', top_k: 1 },
      embedding: { model: 'small' },
    };
    expect(await put(changed, 200)).deep.equal({ config: changed });
    expect(await read()).deep.equal(changed);
  });

  it('rejects values that are out of range, missing, unknown or inconsistent (422), and stays unchanged', async () => {
    const config = await read();
    const wrong: [section: keyof RagConfigDto, field: string, value: unknown][] = [
      ['chunking', 'target_tokens', 8193],
      ['chunking', 'overlap_tokens', 400],
      ['chunking', 'unit', 'word'],
      ['retrieval', 'rrf_k', 1.5],
      ['reranking', 'top_k', 0],
      ['embedding', 'model', 'nobody-offers-this'],
      ['embedding', 'model', 'extractive-1'],
    ];
    for (const [section, field, value] of wrong) {
      const body = await put({ ...config, [section]: { ...config[section], [field]: value } }, 422);
      expect(body).nested.include({ 'errors[0].path': `${section}.${field}` });
      if (section === 'embedding') expect(body).include({ code: 'unknown_model' });
    }
    expect(await read()).deep.equal(config);
  });

  it('cannot get another embedding model while the list of models is unavailable (503), but can keep its own', async () => {
    const settings = { ...stack.settings, OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', EMBEDDING_MODEL: 'medium' };
    const cutOff = await startStack(settings, { workers: false });
    try {
      const there = { ...ada, ...ada.at(cutOff.baseUrl) };
      expect(await put(await withModel('large'), 503, there)).include({ code: 'model_unavailable' });
      expect(await put(await withModel('small'), 200, there)).deep.equal({ config: await read() });
    } finally {
      await cutOff.close();
    }
  });

  it('can name another embedding model; one question then finds documents of the old and of the new model', async () => {
    const agentId = await aPublishedAgent(ada);
    await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs one percent.');
    await put(await withModel('large'), 200);
    const { body } = await ada.post(`/rag/ingest/${id}`, {}, 200);
    await untilRun(ada, ingestRequestResultSchema.parse(body).embedding_job_id, 'succeeded');
    expect(await readDocument(ada, id)).include({ chunking_stale: false, embedding_stale: false });
    expect((await ada.post(`/rag/ingest/${id}`, {}, 200)).body).include({ queued: false });

    model.calls.length = 0;
    model.behave(() => ({ kind: 'answer', text: 'Paying back soon has a price [1][2].' }));
    const message = 'When does the loan counter open, and what does early repayment of the loan cost?';
    const answer = await ask(ada, { agent_id: agentId, message }, 201);
    const asked = embeddedTexts(model);
    expect(asked.filter((text) => text.includes('When does'))).have.members([message, `query: ${message}`]);
    const prompt = model.requests[0]?.messages.map(({ content }) => content).join('\n') ?? '';
    expect(prompt).include('| Terms |').and.include('| Hours |');
    const replies = asked.filter((text) => text === 'Paying back soon has a price');
    expect(replies, 'each by its own model').length(2);
    expect(answer.reply).equal('Paying back soon has a price.');
  });
});

import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { ingestRequestResultSchema, type RagConfigDto, ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { wordVector } from '#test/support/retrieval-fixture.ts';
import { embeddedTexts, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

describe('documents of two embedding models', () => {
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;

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
    ada = await stack.signUp();
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  const read = async (id: string): Promise<RagConfigDto> =>
    ragConfigResultSchema.parse((await ada.get(`/rag/config/${id}`, 200)).body).config;
  const withModel = async (id: string, name: string) => ({ ...(await read(id)), embedding: { model: name } });
  const document = async (id: string) => fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);

  it('are found by one search, each by its own model', async () => {
    const agentId = await aPublishedAgent(ada);
    await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs one percent.');
    const id = await anIngestedDocument(ada, 'Hours', 'The loan counter opens at nine.');
    await ada.put(`/rag/config/${id}`, await withModel(id, 'large'), 200);
    expect(await document(id)).include({ chunking_stale: false, embedding_stale: true });
    const { body } = await ada.post(`/rag/ingest/${id}`, {}, 200);
    await untilRun(ada, ingestRequestResultSchema.parse(body).embedding_job_id, 'succeeded');
    expect(await document(id)).include({ chunking_stale: false, embedding_stale: false });
    expect((await ada.post(`/rag/ingest/${id}`, {}, 200)).body).include({ queued: false });

    model.calls.length = 0;
    model.behave(() => ({ kind: 'answer', text: 'Paying back soon has a price [1][2].' }));
    const message = 'When does the loan counter open, and what does early repayment of the loan cost?';
    const answer = await ask(ada, { agent_id: agentId, message }, 201);
    const asked = embeddedTexts(model);
    expect(asked.filter((text) => text.includes('When does'))).have.members([message, `query: ${message}`]);
    const prompt = model.requests[0]?.messages.map(({ content }) => content).join('\n') ?? '';
    expect(prompt).include('| Terms |').and.include('| Hours |');
    expect(
      asked.filter((text) => text === 'Paying back soon has a price'),
      'each by its own model',
    ).length(2);
    expect(answer.reply).equal('Paying back soon has a price.');
  });

  it('may name offered models and the one they have', async () => {
    const id = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs one percent.');
    for (const name of ['nobody-offers-this', 'extractive-1']) {
      const { body } = await ada.put(`/rag/config/${id}`, await withModel(id, name), 422);
      expect(body).nested.include({ code: 'unknown_model', 'errors[0].path': 'embedding.model' });
    }
    const gone = JSON.stringify({
      ...(await stack.container.db('documents').where({ id }).first()).ragConfig,
      embedding: { model: 'gone' },
    });
    await stack.container.db('documents').where({ id }).update({ ragConfig: gone });
    const { body } = await ada.put(`/rag/config/${id}`, await withModel(id, 'gone'), 200);
    expect(body).deep.equal({ config: await read(id) });
    await ada.put(`/rag/config/${id}`, await withModel(id, 'small'), 200);
  });

  it('503 for another model while the list of models is unavailable', async () => {
    const id = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs one percent.');
    const settings = { ...stack.settings, OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' };
    const cutOff = await startStack(settings, { workers: false });
    try {
      const there = ada.at(cutOff.baseUrl);
      const { body } = await there.put(`/rag/config/${id}`, await withModel(id, 'large'), 503);
      expect(body).include({ code: 'model_unavailable' });
      await there.put(`/rag/config/${id}`, await withModel(id, 'small'), 200);
    } finally {
      await cutOff.close();
    }
  });
});

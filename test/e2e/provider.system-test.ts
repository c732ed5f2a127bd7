import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import proto from '@temporalio/proto';
import { expect } from 'chai';
import { createEmbeddedService, type EmbeddedService } from '#test/support/embedded-service.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings, answerError, answerJson } from '#test/support/scripted-server.ts';
import { until } from '#test/support/until.ts';
import { type ApiClient, createApiClient } from '../../scripts/demo/api-client.ts';

const KEY = 'sk-the-operators-own-key-4711';
const SENTENCE = 'The harbour master opens the lock at six in the morning.';
const ANCHORS = { 'kelp forest': 8, periwinkle: 5, 'tidal pool': 3 };

type Document = { id: string; embedding_job_id: string };
type Answer = { chat_id: string; reply: string; citations: unknown[]; postprocess_job_id: string };
type Job = { status: string; last_error: { code: string; message: string } | null };

describe('npm start with a provider', function () {
  this.timeout(120_000);
  let provider: ScriptedModel;
  let service: EmbeddedService;
  let running: ReturnType<EmbeddedService['start']>;
  let api: ApiClient;
  let agentId: string;

  before(async () => {
    [provider, service] = await Promise.all([startScriptedModel(), createEmbeddedService()]);
    provider.offer([
      { id: 'theirs-chat', kind: 'chat' },
      { id: 'theirs-embed', kind: 'embedding', query_prefix: 'query: ' },
      { id: 'theirs-rerank', kind: 'reranker' },
    ]);
    provider.behave(() => ({ kind: 'answer', text: `${SENTENCE} [1]` }));
    provider.behaveEmbedding(answerEmbeddings(() => [0.6, 0.8], 'theirs-embed'));
    provider.behaveReranking((response, { documents }: { documents: string[] }) => {
      const results = documents.map((_, index) => ({ index, relevance_score: 1 / (1 + index) }));
      answerJson(200, { results })(response, undefined as never);
    });
    running = service.start({
      OPENAI_BASE_URL: provider.baseUrl,
      OPENAI_API_KEY: KEY,
      CHAT_MODEL: 'theirs-chat',
      EMBEDDING_MODEL: 'theirs-embed',
      LOG_LEVEL: 'trace',
    });
    await running.ready;
    const anonymous = createApiClient(`http://127.0.0.1:${service.ports.PORT}`);
    const account = { email: 'ada@example.com', password: 'Correct-horse-1', display_name: 'Ada' };
    const { access_token } = await anonymous.post<{ access_token: string }>('/auth/register', account);
    api = anonymous.as(access_token);
    agentId = await publishAgent();
  });

  after(async () => {
    await service?.close();
    await provider?.close();
  });

  async function publishAgent(): Promise<string> {
    const draft = await api.post<{ id: string; head_version_id: string }>('/agent-drafts', {
      agent_name: 'Shore',
      agent_prompt: 'You answer about our harbour.',
      anchor_words: ANCHORS,
    });
    const version = { version_id: draft.head_version_id };
    return (await api.post<{ id: string }>(`/agent-drafts/${draft.id}/publish`, version)).id;
  }

  const paste = (name: string, content: string) =>
    api.post<Document>('/documents/paste', { name, content, source_format: 'markdown' });
  const ask = (message: string) => api.post<Answer>('/chat', { agent_id: agentId, message });
  const untilJob = (id: string, status: string) =>
    until(`${id} has ${status}`, async () => {
      const job = await api.get<Job>(`/jobs/${id}`);
      return job.status === status ? job : null;
    });

  const asked = (path: string) => provider.calls.filter((call) => call.path === path);
  const embedded = () => asked('/embeddings').flatMap(({ body }) => (body as { input: string[] }).input);

  it('sends it chats, titles, passages, questions and rankings, each with the key', async () => {
    const { embedding_job_id } = await paste('Harbour', `# Lock\n\n${SENTENCE}`);
    await untilJob(embedding_job_id, 'succeeded');
    const question = 'When does the lock open?';
    const { reply, citations, postprocess_job_id } = await ask(question);
    expect(reply).to.equal(`${SENTENCE} [1]`);
    expect(citations).to.have.length(1);
    await untilJob(postprocess_job_id, 'succeeded');

    const [passage] = embedded();
    expect(passage).to.include(SENTENCE).and.not.include('query: ');
    expect(embedded()).to.include(`query: ${question}`);
    expect(provider.rerankRequests[0]).to.deep.include({ model: 'theirs-rerank', query: question });
    expect(provider.requests.map(({ model, stream }) => ({ model, stream }))).to.deep.equal([
      { model: 'theirs-chat', stream: true },
    ]);
    const isForTitle = ({ body }: { body: unknown }) => JSON.stringify(body).includes('Write a title');
    await until('it was asked for a title', async () => asked('/chat/completions').filter(isForTitle).length === 1);
    for (const { path, authorization } of provider.calls) expect(authorization, path).to.equal(`Bearer ${KEY}`);
  });

  it('scores alignment with the packaged embedder, and asks the provider nothing about it', () => {
    const modelServer = readFileSync(join(service.dataDir, 'logs', 'model-server.log'), 'utf8');
    expect(modelServer).to.include('POST /v1/embeddings').and.not.include('POST /v1/chat');
    for (const text of embedded()) expect(text).not.to.match(/kelp|periwinkle|tidal/);
  });

  it('answers where the provider has no reranker', async () => {
    provider.behaveReranking(null);
    provider.calls.length = 0;
    expect((await ask('And when does it close?')).reply).to.equal(`${SENTENCE} [1]`);
    expect(asked('/rerank')).to.have.length(1);
  });

  it('tells nobody the key, even when the provider repeats it in a refusal', async () => {
    const refusal = `Incorrect API key provided: ${KEY}.`;
    provider.behaveEmbedding(answerError(401, refusal));
    provider.behaveReranking(answerError(401, refusal));
    const { id, embedding_job_id } = await paste('Tides', 'High water comes twice a day.');
    const fault = await until('the refusal is told', async () => {
      return (await api.get<Job>(`/jobs/${embedding_job_id}`)).last_error;
    });
    expect(fault.code).to.equal('model_not_configured');
    expect(fault.message).not.to.include(KEY);
    // Without vectors and ranking the words find the passage.
    expect((await ask('When does the harbour master open the lock?')).citations).to.have.length(1);

    const histories = await readHistories(service.ports.TEMPORAL_PORT);
    expect(histories).to.include(id).and.to.include('model_not_configured').and.not.to.include(KEY);
    running.child.kill('SIGTERM');
    const { output } = await running.ended;
    expect(output).not.to.include(KEY);
    expect(filesWith(KEY, service.dataDir)).to.deep.equal([]);
    // The search would have found it.
    expect(filesWith(id, service.dataDir).some((path) => path.includes('temporal.db'))).to.equal(true);
  });
});

/** Of every run, payloads as they are and not as base64. */
async function readHistories(port: number): Promise<string> {
  const connection = await Connection.connect({ address: `127.0.0.1:${port}` });
  try {
    const { workflow } = new Client({ connection });
    let text = '';
    for await (const { workflowId, runId } of workflow.list()) {
      const history = await workflow.getHandle(workflowId, runId).fetchHistory();
      text += Buffer.from(proto.temporal.api.history.v1.History.encode(history).finish()).toString();
    }
    return text;
  } finally {
    await connection.close();
  }
}

/** Logs, the database's files, those of Temporal, and whatever else there is. */
function filesWith(text: string, folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(text));
}

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ApiClient } from '../../scripts/demo/api-client.ts';
import { loadConfig } from '../../src/config.ts';
import { createContainer } from '../../src/container.ts';
import { startProduct } from '../measured-product.ts';
import { chatModel, type DelayedModel, embeddingModel, startDelayedModel } from './delayed-model.ts';

export type MeasuredChat = {
  model: DelayedModel;
  api: ApiClient;
  agentId: string;
  retrieve(query: string): Promise<void>;
  apiMemory(): Promise<number>;
  stop(): Promise<void>;
};

const documents = 20;

/** Starts the product with indexed documents, a fake provider with fixed delays, and an agent. */
export async function startMeasuredChat(): Promise<MeasuredChat> {
  const model = await startDelayedModel();
  const product = await startProduct({
    OPENAI_BASE_URL: model.baseUrl,
    OPENAI_API_KEY: 'local',
    CHAT_MODEL: chatModel,
    EMBEDDING_MODEL: embeddingModel,
    RATE_LIMIT_CHAT: 'off',
    CONCURRENT_REQUESTS: 'off',
  });
  model.embedAt(product.modelBaseUrl);
  const api = await product.signUp();
  const uploads = Array.from({ length: documents }, (_, index) =>
    product.upload(api, `loans-${index}.txt`, textOf(index)),
  );
  for (const upload of uploads) await product.untilDone((await upload).runId);
  const draft = await api.post<{ id: string; head_version_id: string }>('/agent-drafts', {
    agent_name: 'Loans',
    agent_prompt: 'You help the customers of a bank with their loans.',
    anchor_words: Object.fromEntries(
      ['loan', 'rate', 'bank', 'credit', 'repay', 'month', 'sum', 'debt'].map((word) => [word, 3]),
    ),
  });
  const { id: agentId } = await api.post<{ id: string }>(`/agent-drafts/${draft.id}/publish`, {
    version_id: draft.head_version_id,
  });

  const container = createContainer(loadConfig({ ...product.environment }), 'test');
  const { id: userId } = await container.db('users').first('id');
  const actor = await container.auth.findActor(String(userId));
  if (actor === null) throw new Error('The benchmark user was not found.');

  return {
    model,
    api,
    agentId,
    retrieve: async (query) => {
      const contextTokens = await container.models.contextBudget(chatModel);
      const { signal } = new AbortController();
      const asked = { ...actor, requestId: 'bench' };
      const { chunks } = await container.retrieval.retrieve(asked, {
        ...{ query, contextTokens, signal },
        reranking: { isEnabled: null, type: null },
        includeDocumentIds: undefined,
        excludeDocumentIds: undefined,
      });
      if (chunks.length === 0) throw new Error('The retrieval returned no chunk for the benchmark question.');
    },
    apiMemory: async () => {
      const path = join(process.env.DATA_DIR ?? '', 'run', 'children.json');
      const children = JSON.parse(await readFile(path, 'utf8')) as { name: string; pid: number }[];
      const pid = children.find(({ name }) => name === 'api')?.pid;
      const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
      return Number(kilobytes) * 1024;
    },
    stop: async () => {
      await container.close();
      await product.stop();
      await model.close();
    },
  };
}

function textOf(index: number): string {
  const sentence = (line: number) =>
    `In case ${index}.${line} the bank lends a sum at a rate of ${line} percent, and the loan is repaid month by month. `;
  return Array.from({ length: 60 }, (_, line) => sentence(line)).join('');
}

import { expect } from 'chai';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { anEvaluableVersion, anIngestedDocument, aPublishedAgent, openChatStream, startPath } from './builders.ts';
import { startApiProcess, startWorkerProcess } from './child-processes.ts';
import { collect } from './collect.ts';
import { judgeWell } from './scripted-judge.ts';
import { startScriptedModel } from './scripted-model.ts';
import { type Stack, startStack } from './stack.ts';
import { until } from './until.ts';

export type Scrape = { atMs: number; labels: { job: string; instance: string }; text: string };

/** An API process and a worker process that are scraped from outside, as Prometheus does. */
export async function startMeasuredService() {
  const [metricsPort = 0, workerPort = 0] = await findFreePorts(2);
  const model = await startScriptedModel();
  const models = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl, EVAL_MODEL: 'judge' };
  const stack = await startStack(models, { workers: false });
  const [api, worker] = await Promise.all([
    startApiProcess(stack, { METRICS_PORT: String(metricsPort) }),
    startWorkerProcess(stack, { WORKER_PORT: String(workerPort) }),
  ]);
  const ada = (await stack.signUp()).at(api.baseUrl);
  const pages = {
    'acs-api': `http://127.0.0.1:${metricsPort}/metrics`,
    'acs-worker': `http://127.0.0.1:${workerPort}/metrics`,
  };

  return {
    api,
    worker,
    workerUrl: `http://127.0.0.1:${workerPort}`,
    metricsUrl: pages['acs-api'],
    stack: stack as Stack,
    ada,
    /** An upload, a chat with a stream, and an evaluation. */
    async story(): Promise<void> {
      model.behave(() => ({ kind: 'answer', text: 'The loan costs one percent.' }));
      await anIngestedDocument(ada, 'Loans', 'A loan of the bank costs one percent of interest for each month.');
      const agentId = await aPublishedAgent(ada);
      const question = { agent_id: agentId, message: 'What does a loan cost?' };
      const events = await collect(await openChatStream(ada, question));
      expect(events.at(-1)).include({ event: 'done' });
      model.behave(judgeWell());
      const of = await anEvaluableVersion(ada, {
        golden_cases: [{ id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' }],
      });
      await ada.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=60' });
      const open = () => stack.container.db('jobs').whereNull('finishedAt');
      await until('nothing is open', async () => (await open()).length === 0);
    },
    async scrape(atMs: number): Promise<Scrape[]> {
      const all = Object.entries(pages).map(async ([job, url]) => {
        const text = await (await fetch(url)).text();
        return { atMs, labels: { job, instance: new URL(url).host }, text };
      });
      return Promise.all(all);
    },
    async close() {
      await Promise.all([api.stop(), worker.stop()]);
      await stack.close();
      await model.close();
    },
  };
}

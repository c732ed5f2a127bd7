import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, type ChatMessage } from '#test/support/builders.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { type JobView, untilJob } from '#test/support/until-job.ts';
import { qdrantFacade, qdrantUrl } from '../../scripts/launchers/qdrant.ts';
import { type RunningChild, startChild } from '../../scripts/supervisor/child-process.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

/** In the everyday tests it is away for as long as it takes to see what follows. */
const DOWN_MS = isFullRun ? 60_000 : 0;
const question = 'What does early repayment of the loan cost?';

describe('F7: a vector store that is away', function () {
  this.timeout(240_000);
  const dataDir = mkdtempSync(join(tmpdir(), 'qdrant-'));
  let stack: Stack;
  let server: RunningChild;
  let startServer: () => Promise<void>;

  before(async () => {
    const [port = 0] = await findFreePorts(1);
    const spec = qdrantFacade({ toolsDir: testServices().toolsDir, dataDir, port });
    startServer = async () => {
      server = startChild(spec, join(dataDir, 'qdrant.log'));
      await until('the vector store answers', () => spec.isReady().catch(() => false));
    };
    await startServer();
    stack = await startStack({ QDRANT_URL: qdrantUrl(port) }, { workers: 'all' });
  });
  after(async () => {
    await stack.close();
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  async function degradations({ chat_id }: ChatMessage): Promise<string[]> {
    const rounds = await stack.container.db('rounds').where({ chatId: chat_id });
    const events: { type: string; data: { reason?: string } }[] = rounds.flatMap((round) => round.answerEvents);
    return events.flatMap(({ type, data }) => (type === 'retrieval_degraded' ? [data.reason ?? ''] : []));
  }

  it('chats go on by words, what is written waits, and afterwards everything is as it would have been', async () => {
    const ada = await stack.signUp();
    const terms = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs a fee of one percent.');
    const doomed = await anIngestedDocument(ada, 'Old terms', 'Paying the loan back early was free of charge.');
    const byMeaning = await anIngestedDocument(ada, 'Rates', 'The interest rate of the loan is three percent.');
    const agent = await aPublishedAgent(ada);
    const first = await ask(ada, { agent_id: agent, message: question }, 201);
    expect(await degradations(first)).deep.equal([]);

    process.kill(server.pid, 'SIGKILL');
    await server.ended;
    const downAtMs = performance.now();

    const answer = await ask(ada, { agent_id: agent, message: question }, 201);
    expect(answer.citations.map((citation) => citation.document_id)).include(terms);
    expect(await degradations(answer)).deep.equal(['vector_store_unavailable']);
    const { body: readiness } = await ada.get('/readyz', 200);
    expect(readiness).deep.include({ status: 'ready' });

    const uploaded = await uploadText(ada, 'A late payment of the loan costs a fee of five euros.');
    const waiting = await until('the ingestion says what it waits for', async () => {
      const job = (await ada.get(`/jobs/${uploaded.jobId}`, 200)).body as JobView;
      return job.last_error === null ? null : job;
    });
    expect(waiting).include({ status: 'running' });
    expect(waiting.last_error).include({ code: 'service_unavailable' });

    const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${byMeaning}`, 200)).body);
    const retrieval = { ...config.retrieval, mode: 'vector' };
    await ada.put(`/rag/config/${byMeaning}`, { ...config, retrieval }, 200);
    const alone = { agent_id: agent, message: question, include_document_ids: [byMeaning] };
    const { body: problem } = await ada.post('/chat', alone, 503);
    expect(problem).include({ code: 'service_unavailable' });

    await ada.delete(`/documents/${doomed}`, 204);
    await delay(Math.max(0, DOWN_MS - (performance.now() - downAtMs)));

    await startServer();
    const upAtMs = performance.now();
    await untilJob(ada, uploaded.jobId, 'succeeded');
    await until('every change is published and the deletion done', async () => {
      const { db } = stack.container;
      const open = await db('documents').whereNotNull('pointsOutdatedAt').orWhere({ id: doomed });
      return open.length === 0;
    });
    measured('all done after it was back', performance.now() - upAtMs, 90_000);

    const last = await ask(ada, alone, 201);
    expect(await degradations(last)).deep.equal([]);
    await expectInvariants(stack);
    await expectStoresMatch(stack);
  });

  it('a store that is silent is not waited for longer than a person would wait', async () => {
    const ada = await stack.signUp();
    const terms = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs a fee of one percent.');
    const agent = await aPublishedAgent(ada);
    process.kill(server.pid, 'SIGSTOP');
    try {
      const answer = await ask(ada, { agent_id: agent, message: question }, 201);
      expect(answer.citations.map((citation) => citation.document_id)).include(terms);
      expect(await degradations(answer)).deep.equal(['vector_store_unavailable']);
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    expect(await degradations(await ask(ada, { agent_id: agent, message: question }, 201))).deep.equal([]);
  });
});

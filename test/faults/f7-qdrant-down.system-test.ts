import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { type JobView, untilJob } from '#test/support/until-job.ts';
import { qdrantFacade, qdrantUrl } from '../../scripts/launchers/qdrant.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { type OwnServer, startOwnServer } from './own-server.ts';

/** In small runs it is away for as long as it takes to see what follows. */
const DOWN_MS = isFullRun ? 60_000 : 0;
const message = 'What does early repayment of the loan cost?';

describe('F7: when the vector store', function () {
  this.timeout(240_000);
  let stack: Stack;
  let qdrant: OwnServer;
  let ada: Member;
  let terms: string;
  let agent_id: string;

  before(async () => {
    const [port = 0] = await findFreePorts(1);
    qdrant = await startOwnServer((dataDir) => qdrantFacade({ toolsDir: testServices().toolsDir, dataDir, port }));
    stack = await startStack({ QDRANT_URL: qdrantUrl(port) }, { workers: 'all' });
    ada = await stack.signUp();
    terms = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs a fee of one percent.');
    agent_id = await aPublishedAgent(ada);
  });
  after(async () => {
    await stack.close();
    await qdrant.close();
  });

  /** Asks. @returns the documents that the answer cites, and why its search was degraded */
  async function answer(fields: object = {}) {
    const { chat_id, citations } = await ask(ada, { agent_id, message, ...fields }, 201);
    const rounds = await stack.container.db('rounds').where({ chatId: chat_id });
    const events: { type: string; data: { reason?: string } }[] = rounds.flatMap((round) => round.answerEvents);
    const degradations = events.flatMap(({ type, data }) => (type === 'retrieval_degraded' ? [data.reason] : []));
    return { cited: citations.map(({ document_id }) => document_id), degradations };
  }
  /** Asks, and expects an answer by words alone. */
  async function expectDegraded(): Promise<void> {
    const { cited, degradations } = await answer();
    expect(cited).include(terms);
    expect(degradations).deep.equal(['vector_store_unavailable']);
  }
  const expectWhole = async (fields = {}) => expect((await answer(fields)).degradations).deep.equal([]);

  it('is down, chats search by words, writes wait, and all work is completed once the store is back', async () => {
    const doomed = await anIngestedDocument(ada, 'Old terms', 'Paying the loan back early was free of charge.');
    const byMeaning = await anIngestedDocument(ada, 'Rates', 'The interest rate of the loan is three percent.');
    await expectWhole();

    await qdrant.kill();
    const downAtMs = performance.now();
    await expectDegraded();
    expect((await ada.get('/readyz', 200)).body).deep.include({ status: 'ready' });
    const uploaded = await uploadText(ada, 'A late payment of the loan costs a fee of five euros.');
    const waiting = await until('the ingestion says what it waits for', async () => {
      const job = (await ada.get(`/jobs/${uploaded.jobId}`, 200)).body as JobView;
      return job.last_error === null ? null : job;
    });
    expect(waiting).deep.nested.include({ status: 'running', 'last_error.code': 'service_unavailable' });
    const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${byMeaning}`, 200)).body);
    const retrieval = { ...config.retrieval, mode: 'vector' };
    await ada.put(`/rag/config/${byMeaning}`, { ...config, retrieval }, 200);
    const alone = { include_document_ids: [byMeaning] };
    const { body: problem } = await ada.post('/chat', { agent_id, message, ...alone }, 503);
    expect(problem).include({ code: 'service_unavailable' });
    await ada.delete(`/documents/${doomed}`, 204);
    await delay(Math.max(0, DOWN_MS - (performance.now() - downAtMs)));

    await qdrant.start();
    const upAtMs = performance.now();
    await untilJob(ada, uploaded.jobId, 'succeeded');
    await until('every change is published and the deletion done', async () => {
      const open = stack.container.db('documents').whereNotNull('pointsOutdatedAt').orWhere({ id: doomed });
      return (await open).length === 0;
    });
    measured('all done after it was back', performance.now() - upAtMs, 90_000);
    await expectWhole(alone);
    await expectInvariants(stack);
    await expectStoresMatch(stack);
  });

  it('does not respond, requests do not wait for it longer than a user would', async () => {
    qdrant.signal('SIGSTOP');
    await expectDegraded().finally(() => qdrant.signal('SIGCONT'));
    await expectWhole();
  });
});

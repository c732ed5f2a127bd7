import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { type Order, type ProductionCluster, startProductionCluster } from '#test/support/production-cluster.ts';
import { openBucket } from '#test/support/s3.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { type Caller, createSteadyLoad, openCaller } from '#test/support/steady-load.ts';
import { until } from '#test/support/until.ts';

const lastsMs = isFullRun ? 600_000 : 40_000;
const requestsPerSecond = 12;
const organizations = 4;
/** The second one is slower than a process waits for its streams. */
const answers = { usual: { words: 40, everyMs: 50 }, long: { words: 300, everyMs: 100 } };

describe('F19: every process is restarted in turn while clients go on', function () {
  this.timeout(lastsMs + 300_000);
  const random = seeded(runSeed);
  let model: ScriptedModel;
  let cluster: ProductionCluster;
  let callers: [Caller, ...Caller[]];

  before(async function () {
    const bucket = await openBucket(this);
    model = await startScriptedModel();
    model.behave(({ messages }) => {
      const isLong = /at length/.test(messages.at(-1)?.content ?? '');
      const { words, everyMs } = isLong ? answers.long : answers.usual;
      return { kind: 'answer', text: Array.from({ length: words }, (_, index) => `word${index} `), everyMs };
    });
    cluster = await startProductionCluster(
      { ...bucket.environment, OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl },
      { apis: 2, workers: 3 },
    );
    const opened: Caller[] = [];
    for (let index = 0; index < organizations; index += 1) {
      const member = await cluster.signUp();
      opened.push(await openCaller(member, await aPublishedAgent(member)));
    }
    callers = opened as typeof callers;
  });
  after(async () => {
    await cluster?.close();
    await model?.close();
  });

  it('loses no request, ends every stream once, and does all that it has taken', async () => {
    const load = createSteadyLoad({ callers, random, requestsPerSecond });
    let end = Date.now() + lastsMs;
    const restarts = { apis: 0, workers: 0 };
    const order = (turn: number): Order => (turn % 2 === 0 ? 'start first' : 'stop first');
    const restartUntil = async (
      part: 'apis' | 'workers',
      replaceOne: (index: number, order: Order) => Promise<void>,
    ) => {
      for (let turn = 0; turn < cluster[part].length || Date.now() < end; turn += 1) {
        const answered = load.answered();
        await replaceOne(turn % cluster[part].length, order(turn));
        expect(load.answered(), 'requests that were answered meanwhile').greaterThan(answered);
        restarts[part] += 1;
        await delay(random.between(0, 1_000));
      }
    };

    const loops = [restartUntil('apis', cluster.replaceApi), restartUntil('workers', cluster.replaceWorker)];
    try {
      await Promise.all([...loops, delay(lastsMs)]);
    } finally {
      // However one of them ends: nothing starts a process any more when the cluster is closed.
      end = 0;
      load.stop();
      await Promise.allSettled(loops);
    }
    const result = await load.settled();
    note(`${result.requests} requests (${result.failures.length} failed), p95 ${result.p95Ms} ms`);
    note(`${result.streams} streams, ${result.cutOff} ended by a restart and asked again`);
    note(`${restarts.apis} restarts of the API, ${restarts.workers} of workers`);
    if (!isFullRun)
      console.log(`      ${JSON.stringify({ ...result, failures: result.failures.length, ...restarts })}`);

    expect(result.failures).deep.equal([]);
    const { db } = cluster.container;
    const unfinished = () =>
      db('jobs').whereNotIn('status', ['succeeded', 'failed', 'cancelled']).first('id', 'status');
    await until('all work is done', async () => !(await unfinished())).catch(async () => {
      expect(await unfinished()).equal(undefined);
    });
    expect(await db('jobs').where({ status: 'failed' }).select('id')).deep.equal([]);
    for (const { member, documents } of callers) {
      for (const id of documents) {
        const { body } = await member.get(`/documents/${id}`, 200);
        expect(body, `document ${id}`).deep.include({ embedding_complete: true });
      }
    }
    const rounds = await db<Round>('rounds').select('status', 'errorCode');
    expect(rounds.filter(({ status }) => status === 'open')).deep.equal([]);
    expect(new Set(rounds.filter(({ status }) => status === 'error').map(({ errorCode }) => errorCode))).satisfies(
      (codes: Set<string>) => [...codes].every((code) => code === 'interrupted'),
    );
    await expectInvariants(cluster);
  });
});

import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, readDocument } from '#test/support/builders.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { openBucket } from '#test/support/s3.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { type ProductionCluster, startProductionCluster } from './production-cluster.ts';
import { type Caller, createSteadyLoad, openCaller } from './steady-load.ts';

const lastsMs = isFullRun ? 600_000 : 40_000;
const requestsPerSecond = 12;
/** The second one is slower than a process waits for its streams. */
const answers = { usual: { words: 40, everyMs: 50 }, long: { words: 300, everyMs: 100 } };

describe('F19: a cluster whose processes are all restarted in turn, while clients send requests,', function () {
  this.timeout(lastsMs + 300_000);
  const random = seeded(runSeed);
  let model: ScriptedModel;
  let cluster: ProductionCluster;

  before(async function () {
    const bucket = await openBucket(this);
    model = await startScriptedModel();
    model.behave(({ messages }) => {
      const isLong = /at length/.test(messages.at(-1)?.content ?? '');
      const { words, everyMs } = isLong ? answers.long : answers.usual;
      return { kind: 'answer', text: Array.from({ length: words }, (_, index) => `word${index} `), everyMs };
    });
    const models = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl };
    cluster = await startProductionCluster({ ...bucket.environment, ...models });
  });
  after(async () => {
    // Undefined if the suite was skipped.
    await cluster?.close();
    await model?.close();
  });

  it('loses no request, ends every stream once, and completes all accepted work', async () => {
    const open = async () => {
      const member = await cluster.signUp();
      return openCaller(member, await aPublishedAgent(member));
    };
    const callers: [Caller, ...Caller[]] = [await open(), await open(), await open(), await open()];
    const load = createSteadyLoad({ callers, random, requestsPerSecond });
    let end = Date.now() + lastsMs;
    const restarts = { apis: 0, workers: 0 };
    const restartUntil = async (part: 'apis' | 'workers', replaceOne: ProductionCluster['replaceApi']) => {
      for (let turn = 0; turn < cluster[part].length || Date.now() < end; turn += 1) {
        const answered = load.answered();
        await replaceOne(turn % cluster[part].length, turn % 2 === 0 ? 'start first' : 'stop first');
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
    const { opened, returns, cutOff } = result.streams;
    note(`${opened} streams, ${returns} returns, ${cutOff} ended by a restart and asked again`);
    note(`${restarts.apis} restarts of the API, ${restarts.workers} of workers`);
    expect(result.failures).deep.equal([]);
    const { db } = cluster.container;
    const unfinished = () => db('jobs').whereNull('finishedAt').first('id');
    await until('all work is done', async () => (await unfinished()) === undefined);
    expect(await db('jobs').where({ status: 'failed' }).select('id')).deep.equal([]);
    for (const caller of callers) {
      for (const id of caller.documents) expect(await readDocument(caller, id)).include({ embedding_complete: true });
    }
    const interrupted = { status: 'error', errorCode: 'interrupted' };
    expect(await db<Round>('rounds').whereNot({ status: 'complete' }).whereNot(interrupted)).deep.equal([]);
    await expectInvariants(cluster);
  });
});

import { randomBytes } from 'node:crypto';
import type { Payload } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { createTemporalConnection, type TemporalConnection } from '#src/temporal/connection.ts';
import { dataConverter } from '#src/temporal/data-converter.ts';
import type { Member } from '#test/support/client.ts';
import { readable } from '#test/support/sealed-history.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { workflowBundle } from '#workers/bundle.ts';
import { startWorkers } from '#workers/run.ts';

const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
const [first, second, foreign] = [keyOf('first'), keyOf('second'), keyOf('foreign')];

describe('encrypted payloads', function () {
  this.timeout(120_000);
  let own: Stack;
  let ada: Member;
  /** Of somebody without a key. */
  let outsider: TemporalConnection;

  before(async () => {
    own = await startStack({ TEMPORAL_CODEC_KEY: first }, { workers: false });
    outsider = createTemporalConnection({ address: own.config.temporal.address, namespace: own.config.temporal.namespace });
    ada = await own.signUp();
  });
  after(async () => {
    await outsider?.close();
    await own?.close();
  });

  async function upload(name: string, content: string | Uint8Array<ArrayBuffer>): Promise<string> {
    const { body } = await ada.upload('/documents', { name, content }, 201);
    const { job_ids: jobIds }: { job_ids: string[] } = Object(body);
    return parseJobId(jobIds[0] ?? '').workflowId;
  }

  /** Workers of this deployment, with these keys. */
  async function withWorkers(codecKey: string, work: () => Promise<void>): Promise<void> {
    const container = createContainer(loadConfig({ ...own.settings, TEMPORAL_CODEC_KEY: codecKey }), 'test');
    const workers = startWorkers(container);
    try {
      await workers.polling;
      await work();
    } finally {
      await workers.shutdown();
      await container.close();
    }
  }

  const historyOf = (workflowId: string) => outsider.client.workflow.getHandle(workflowId).fetchHistory();
  const keysOf = (payloads: Payload[]) =>
    new Set(
      payloads.map(({ metadata }) => `${metadata?.encoding} ${metadata?.['encryption-key-id'] ?? ''}`.trim()),
    );

  it('hide from the engine what runs are given, give back and fail with, and from us nothing', async () => {
    await withWorkers(first, async () => {
      const good = await upload('Merger-with-Initech.txt', 'Words of a secret plan.');
      await untilRun(ada, good, 'succeeded');
      const bad = await upload('Layoffs.pdf', Buffer.from('%PDF-1.7 broken'));
      await untilRun(ada, bad, 'failed');
      for (const workflowId of [good, bad]) {
        const history = await historyOf(workflowId);
        const { payloads, failures } = await readable(history);
        expect(payloads).to.have.length.greaterThan(5);
        expect([...keysOf(payloads)]).deep.equal(['binary/encrypted first']);
        console.log(workflowId, payloads.length, failures);
        const { memo, searchAttributes } = await outsider.client.workflow.getHandle(workflowId).describe().then(({ raw }) => ({ memo: raw.workflowExecutionInfo?.memo, searchAttributes: raw.workflowExecutionInfo?.searchAttributes })).catch((e) => { console.log(e); throw e; });
        expect([...keysOf(Object.values(memo?.fields ?? {}))]).deep.equal(['binary/encrypted first']);
        expect(Object.keys(searchAttributes?.indexedFields ?? {})).to.include.members(['OrgId', 'DocumentId']);
        const run = await own.container.temporal.client.workflow.getHandle(workflowId).describe();
        expect(await run.staticSummary()).match(/Merger|Layoffs/);
        expect(run.memo).to.include.keys('startId', 'attempt');
        const { temporal } = own.config;
        const converter = dataConverter(temporal.payloadKeys);
        await Worker.runReplayHistory(
          { workflowBundle: await workflowBundle(converter), dataConverter: converter },
          history,
        );
      }
      expect(await own.container.orchestrator.inspect(bad)).to.containSubset({
        state: 'failed',
        error: { code: 'corrupt_document' },
      });
    });
  });

  it('wait, and name the key, where a worker lacks it, and go on with one that has it beside a newer one', async () => {
    const waiting = await upload('Waiting.txt', 'It was sealed with the first key.');
    await withWorkers('', async () => {
      const failure = await until('a worker has refused it', async () => {
        const { events } = await historyOf(waiting);
        return events?.find((event) => event.workflowTaskFailedEventAttributes)?.workflowTaskFailedEventAttributes?.failure;
      });
      expect(failure.message).equal('The key "first" of a payload is not among those of TEMPORAL_CODEC_KEY.');
    });
    await withWorkers(`${second},${first}`, async () => {
      await untilRun(ada, waiting, 'succeeded', 60_000);
      const { payloads } = await readable(await historyOf(waiting));
      expect(keysOf(payloads)).to.include('binary/encrypted first').and.include('binary/encrypted second');
    });
    expect(foreign).to.be.a('string');
  });
});

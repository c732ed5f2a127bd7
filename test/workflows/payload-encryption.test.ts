import { randomBytes } from 'node:crypto';
import type { Payload } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createTemporalDataConverter } from '#src/temporal/data-converter.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { connectToTemporal } from '#test/support/temporal.ts';
import { untilRun } from '#test/support/until-job.ts';
import { mapPayloads, untilHistory } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';
import { startWorkers } from '#workers/run.ts';

const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
const [first, second] = [keyOf('first'), keyOf('second')];

describe('encrypted payloads', () => {
  let own: Stack;
  let ada: Member;
  let outsider: TemporalConnection;

  before(async () => {
    own = await startStack({ TEMPORAL_CODEC_KEY: first }, { workers: false, schedules: true });
    const { address, namespace } = own.config.temporal;
    outsider = connectToTemporal({ address, namespace });
    ada = await own.signUp();
  });
  after(async () => {
    await outsider?.close();
    await own?.close();
  });

  async function upload(name: string, content: string | Uint8Array<ArrayBuffer>): Promise<string> {
    const { body } = await ada.upload('/documents', { name, content }, 201);
    return parseJobId(fullDocumentSchema.parse(body).parse_job_id ?? '').workflowId;
  }

  /** Starts workers of this deployment with these keys. */
  async function withWorkers(codecKey: string, work: () => Promise<void>): Promise<void> {
    const settings = { ...own.settings, TEMPORAL_CODEC_KEY: codecKey, WORKER_QUEUES: 'workflows,ingestion' };
    const container = createContainer(loadConfig(settings), 'test');
    const workers = startWorkers(container);
    try {
      await workers.polling;
      await work();
    } finally {
      await workers.shutdown();
      await container.close();
    }
  }

  /** The history as Temporal stores it, and its payloads. */
  async function readHistory(workflowId: string) {
    const history = await outsider.client.workflow.getHandle(workflowId).fetchHistory();
    const payloads: Payload[] = [];
    await mapPayloads(history, async (found) => {
      payloads.push(...found);
      return found;
    });
    return { history, payloads };
  }

  const keysOf = (payloads: Payload[]) =>
    new Set(payloads.map(({ metadata }) => `${metadata?.encoding} ${metadata?.['encryption-key-id'] ?? ''}`.trim()));

  it('hide inputs, results and failures of workflows from Temporal, and are readable for clients with the key', async () => {
    await withWorkers(first, async () => {
      const good = await upload('Merger-with-Initech.txt', 'Words of a secret plan.');
      await untilRun(ada, good, 'succeeded');
      const bad = await upload('Layoffs.pdf', Buffer.from('%PDF-1.7 broken'));
      await untilRun(ada, bad, 'failed');
      for (const workflowId of [good, bad]) {
        const { history, payloads } = await readHistory(workflowId);
        expect(payloads).to.have.length.greaterThan(5);
        expect([...keysOf(payloads)]).deep.equal(['binary/encrypted first']);
        expect(JSON.stringify(history)).not.match(/"message":"(?!Encoded failure")/);
        const execution = { namespace: outsider.namespace, execution: { workflowId } };
        const raw = await outsider.client.workflowService.describeWorkflowExecution(execution);
        const { memo, searchAttributes } = raw.workflowExecutionInfo ?? {};
        expect([...keysOf(Object.values(memo?.fields ?? {}))]).deep.equal(['binary/encrypted first']);
        expect(Object.keys(searchAttributes?.indexedFields ?? {})).include.members(['OrgId', 'DocumentId']);
        const run = await own.container.temporal.client.workflow.getHandle(workflowId).describe();
        expect(await run.staticSummary()).match(/^Ingest (Merger-with-Initech.txt|Layoffs.pdf)$/);
        expect(run.memo).to.include.keys('startId', 'attempt');
        const converter = createTemporalDataConverter(own.config.temporal.payloadKeys);
        const options = { workflowBundle: await buildWorkflowBundle(converter), dataConverter: converter };
        await Worker.runReplayHistory(options, history);
      }
      expect(await own.container.orchestrator.inspect(bad)).to.containSubset({
        state: 'failed',
        error: { code: 'corrupt_document' },
      });
    });
  });

  it('stop a run on workers without the key, and let it continue on a worker that has the key', async () => {
    const waiting = await upload('Waiting.txt', 'It was sealed with the first key.');
    await withWorkers('', async () => {
      const run = outsider.client.workflow.getHandle(waiting);
      const failure = await untilHistory(
        run,
        (events) => events.flatMap((event) => event.workflowTaskFailedEventAttributes?.failure ?? [])[0],
      );
      expect(failure.message).equal('TEMPORAL_CODEC_KEY lacks the key "first", which encrypted the payload.');
    });
    await withWorkers(`${second},${first}`, async () => {
      await untilRun(ada, waiting, 'succeeded');
      const { payloads } = await readHistory(waiting);
      expect(keysOf(payloads)).to.include('binary/encrypted first').and.include('binary/encrypted second');
    });
  });
});

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import type { Payload } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { expect } from 'chai';
import pino from 'pino';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { createCodecApp } from '#src/http/server/codec-app.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createPayloadCodec, createTemporalDataConverter } from '#src/temporal/data-converter.ts';
import type { Member } from '#test/support/client.ts';
import { untilHistory } from '#test/support/history-events.ts';
import { readable } from '#test/support/sealed-history.ts';
import { testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { untilRun } from '#test/support/until-job.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';
import { startWorkers } from '#workers/run.ts';
import { temporalProgram } from '../../scripts/launchers/temporal.ts';

const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
const codecToken = 'a-token-of-thirty-two-characters-or-more';
const [first, second] = [keyOf('first'), keyOf('second')];

describe('encrypted payloads', () => {
  let own: Stack;
  let ada: Member;
  /** A client without a key. */
  let outsider: TemporalConnection;

  before(async () => {
    own = await startStack({ TEMPORAL_CODEC_KEY: first }, { workers: false, schedules: true });
    outsider = connectToTemporal({
      address: own.config.temporal.address,
      namespace: own.config.temporal.namespace,
    });
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
    const container = createContainer(
      loadConfig({ ...own.settings, TEMPORAL_CODEC_KEY: codecKey, WORKER_QUEUES: 'ingestion' }),
      'test',
    );
    const workers = startWorkers(container);
    try {
      await workers.polling;
      await work();
    } finally {
      await workers.shutdown();
      await container.close();
    }
  }

  /** The run as Temporal lists it. */
  async function rawRun(workflowId: string) {
    const { namespace } = outsider;
    const { workflowService } = outsider.client;
    const { workflowExecutionInfo } = await workflowService.describeWorkflowExecution({
      namespace,
      execution: { workflowId },
    });
    return { memo: workflowExecutionInfo?.memo, searchAttributes: workflowExecutionInfo?.searchAttributes };
  }

  const historyOf = (workflowId: string) => outsider.client.workflow.getHandle(workflowId).fetchHistory();
  const keysOf = (payloads: Payload[]) =>
    new Set(payloads.map(({ metadata }) => `${metadata?.encoding} ${metadata?.['encryption-key-id'] ?? ''}`.trim()));

  it('hide inputs, results and failures from Temporal, and are readable for clients', async () => {
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
        expect(failures.filter((message) => message !== 'Encoded failure')).deep.equal([]);
        const { memo, searchAttributes } = await rawRun(workflowId);
        expect([...keysOf(Object.values(memo?.fields ?? {}))]).deep.equal(['binary/encrypted first']);
        expect(Object.keys(searchAttributes?.indexedFields ?? {})).to.include.members(['OrgId', 'DocumentId']);
        const run = await own.container.temporal.client.workflow.getHandle(workflowId).describe();
        expect(await run.staticSummary()).match(/^Ingest document /);
        expect(run.memo).to.include.keys('startId', 'attempt');
        const { temporal } = own.config;
        const converter = createTemporalDataConverter(temporal.payloadKeys);
        await Worker.runReplayHistory(
          { workflowBundle: await buildWorkflowBundle(converter), dataConverter: converter },
          history,
        );
      }
      expect(await own.container.orchestrator.inspect(bad)).to.containSubset({
        state: 'failed',
        error: { code: 'corrupt_document' },
      });
    });
  });

  it('are readable in the Temporal CLI only with the codec endpoint', async () => {
    let shown = '';
    await withWorkers(first, async () => {
      shown = await upload('For-operators.txt', 'They may look.');
      await untilRun(ada, shown, 'succeeded');
    });
    const { address, namespace } = own.config.temporal;
    const server = createServer(
      createCodecApp({
        codec: createPayloadCodec({ sealing: null, all: own.config.temporal.payloadKeys?.all ?? [] }),
        ...{ uiOrigins: [], token: codecToken, logger: pino({ level: 'silent' }) },
      }),
    );
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const show = async (...args: string[]) => {
      const of = ['workflow', 'show', '--workflow-id', shown, '--detailed', '--address', address];
      const command = [...of, '--namespace', namespace, '--disable-config-file', '--disable-config-env', ...args];
      const { stdout } = await promisify(execFile)(temporalProgram(testServices().toolsDir), command);
      return stdout;
    };
    try {
      const documentId = /^ingest-(.*)-1$/.exec(shown)?.[1] ?? '';
      // In the output of the CLI only the input of the run contains an object with this key.
      const input = new RegExp(`documentId["\\s:]+${documentId}`);
      expect(await show()).not.match(input);
      expect(await show('--codec-endpoint', endpoint, '--codec-auth', `Bearer ${codecToken}`)).match(input);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it('block a worker without the key, and continue on one that also has it', async () => {
    const waiting = await upload('Waiting.txt', 'It was sealed with the first key.');
    await withWorkers('', async () => {
      const run = outsider.client.workflow.getHandle(waiting);
      const failure = await untilHistory(run, (events) => {
        const failed = events.find((event) => event.workflowTaskFailedEventAttributes);
        return failed?.workflowTaskFailedEventAttributes?.failure ?? undefined;
      });
      expect(failure.message).equal('TEMPORAL_CODEC_KEY lacks the key "first", which encrypted the payload.');
    });
    await withWorkers(`${second},${first}`, async () => {
      await untilRun(ada, waiting, 'succeeded');
      const { payloads } = await readable(await historyOf(waiting));
      expect(keysOf(payloads)).to.include('binary/encrypted first').and.include('binary/encrypted second');
    });
  });
});

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { auditScheduleId } from '#src/temporal/schedules.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { sentences } from '#test/support/ingestion-steps.ts';
import { testServices } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { temporalServer } from '../../scripts/launchers/temporal.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { type OwnServer, startOwnServer } from './own-server.ts';

const DOWN_MS = 30_000;
const UPLOADS = 20;

describe('F5: when Temporal is down,', function () {
  this.timeout(240_000);
  let own: FaultCase;
  let temporal: OwnServer;
  let isOver = false;

  before(async () => {
    const [port = 0, uiPort = 0] = await findFreePorts(2);
    const { toolsDir } = testServices();
    temporal = await startOwnServer((dataDir) => temporalServer({ toolsDir, dataDir, port, uiPort }));
    own = await startFaultCase({
      TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
      TEMPORAL_NAMESPACE: 'default',
      TEMPORAL_CALL_TIMEOUT_MS: '2000',
    });
    await keepWorking();
  });
  after(async () => {
    isOver = true;
    await own.close();
    await temporal.close();
  });

  /** Starts a worker, and another one when it gives up, as a supervisor does. */
  async function keepWorking(): Promise<void> {
    const worker = await own.startWorker();
    void worker.ended.then(() => (isOver ? undefined : keepWorking()));
  }
  async function expectNothingOpen(): Promise<void> {
    const open = () => own.stack.container.db('jobs').whereNull('finishedAt');
    await until('every run is closed', async () => (await open()).length === 0);
    await expectInvariants(own.stack);
  }

  it('the API serves reads, uploads and chats, and all accepted work is completed afterwards', async () => {
    const { member, stack } = own;
    const agentId = await aPublishedAgent(member);
    const before = await uploadText(member, 'What was there before.');
    await untilJob(member, before.jobId, 'succeeded');
    const inFlight = await Promise.all([1, 2, 3, 4].map((at) => uploadText(member, sentences(200, `of text ${at}`))));

    await temporal.kill();
    const downUntil = Date.now() + DOWN_MS;
    const uploaded = [];
    for (let at = 0; at < UPLOADS; at += 1) uploaded.push(await uploadText(member, `Upload ${at} meanwhile.`));
    await member.get(`/documents/${before.documentId}/chunks`, 200);
    await member.get('/jobs', 200);
    const waiting: string[] = await stack.container.db('jobs').whereNull('dispatchedAt').pluck('id');
    expect(waiting).include.members(uploaded.map(({ jobId }) => jobId));
    const answer = await ask(member, { agent_id: agentId, message: 'What is a mortgage loan?' }, 201);
    const isPending = async () => Object((await member.get(`/chat/${answer.chat_id}`, 200)).body).echo_scoring_pending;
    expect(await isPending()).equal(true);
    await delay(Math.max(0, downUntil - Date.now()));

    await temporal.start();
    const healedMs = performance.now();
    for (const { jobId } of [...inFlight, ...uploaded]) await untilJob(member, jobId, 'succeeded');
    measured('backlog done after', performance.now() - healedMs, 60_000);
    await until('the round is scored', async () => !(await isPending()));
    await expectNothingOpen();
  });

  it('the workers start all runs again that Temporal has lost with its data', async () => {
    await temporal.kill();
    const uploaded = await uploadText(own.member, 'Uploaded before Temporal has lost its data.');
    for (const end of ['', '-wal', '-shm']) rmSync(join(temporal.dataDir, `temporal.db${end}`), { force: true });
    await temporal.start();
    const emptyMs = performance.now();
    await untilJob(own.member, uploaded.jobId, 'succeeded');
    measured('work goes on after', performance.now() - emptyMs, 90_000);
    await own.stack.container.temporal.client.schedule.getHandle(auditScheduleId).describe();
    await expectNothingOpen();
  });
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { auditScheduleId } from '#src/temporal/schedules.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured } from '#test/support/fault-run.ts';
import { testServices } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';
import { temporalServer } from '../../scripts/launchers/temporal.ts';
import { type RunningChild, startChild } from '../../scripts/supervisor/child-process.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

const DOWN_MS = 30_000;
const UPLOADS = 20;

describe('F5: Temporal that is away for half a minute', function () {
  this.timeout(240_000);
  const dataDir = mkdtempSync(join(tmpdir(), 'temporal-'));
  let own: FaultCase;
  let server: RunningChild;
  let startServer: () => Promise<void>;

  before(async () => {
    const [port = 0, uiPort = 0] = await findFreePorts(2);
    const spec = temporalServer({ toolsDir: testServices().toolsDir, dataDir, port, uiPort });
    startServer = async () => {
      server = startChild(spec, join(dataDir, 'temporal.log'));
      await until('Temporal serves', () => spec.isReady().catch(() => false));
    };
    await startServer();
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
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  let isOver = false;
  /** As a supervisor does: a worker that gives up is started again. */
  async function keepWorking(): Promise<void> {
    const worker = await own.startWorker();
    void worker.ended.then(() => (isOver ? undefined : keepWorking()));
  }

  it('the API reads, takes uploads and answers; afterwards everything catches up', async () => {
    const { member, stack } = own;
    const agentId = await aPublishedAgent(member);
    const sentences = (of: string) => Array.from({ length: 200 }, (_, at) => `Sentence ${at} of ${of}.`).join(' ');
    const before = await uploadText(member, 'What was there before.');
    await untilJob(member, before.jobId, 'succeeded');
    const inFlight = await Promise.all([1, 2, 3, 4].map((at) => uploadText(member, sentences(`text ${at}`))));

    process.kill(server.pid, 'SIGKILL');
    await server.ended;
    const downUntil = Date.now() + DOWN_MS;
    const uploaded = [];
    for (let at = 0; at < UPLOADS; at += 1) uploaded.push(await uploadText(member, `Upload ${at} meanwhile.`));
    await member.get(`/documents/${before.documentId}/chunks`, 200);
    await member.get('/jobs', 200);
    const { db } = stack.container;
    const waiting = await db('jobs').whereNull('dispatchedAt');
    expect(waiting.map((job) => job.id)).include.members(uploaded.map(({ jobId }) => jobId));
    const answer = await ask(member, { agent_id: agentId, message: 'What is a mortgage loan?' }, 201);
    const pending = async () =>
      ((await member.get(`/chat/${answer.chat_id}`, 200)).body as { echo_scoring_pending: boolean })
        .echo_scoring_pending;
    expect(await pending()).equal(true);
    await delay(Math.max(0, downUntil - Date.now()));

    await startServer();
    const healedMs = performance.now();
    for (const { jobId } of [...inFlight, ...uploaded]) await untilJob(member, jobId, 'succeeded');
    measured('backlog done after', performance.now() - healedMs, 60_000);
    await until('the round is scored', async () => !(await pending()));
    await until('every run is closed', async () => (await db('jobs').whereNull('finishedAt')).length === 0);
    await expectInvariants(stack);
  });

  it('what it has lost with its data is made again, and what was under way is done', async () => {
    const { member, stack } = own;
    const { db, temporal } = stack.container;
    process.kill(server.pid, 'SIGKILL');
    await server.ended;
    const uploaded = await uploadText(member, 'Uploaded before the engine has lost its data.');
    for (const end of ['', '-wal', '-shm']) rmSync(join(dataDir, `temporal.db${end}`), { force: true });
    await startServer();
    const emptyMs = performance.now();
    await untilJob(member, uploaded.jobId, 'succeeded');
    measured('work goes on after', performance.now() - emptyMs, 90_000);
    await temporal.client.schedule.getHandle(auditScheduleId).describe();
    await until('every run is closed', async () => (await db('jobs').whereNull('finishedAt')).length === 0);
    await expectInvariants(stack);
  });
});

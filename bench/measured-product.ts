import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { applicationEnvironment } from '../scripts/application-environment.ts';
import { type ApiClient, createApiClient } from '../scripts/demo/api-client.ts';
import { startEmbedded } from '../scripts/embedded-mode.ts';
import { newPassword, openSecrets } from '../scripts/secrets.ts';
import { readStartSettings } from '../scripts/settings.ts';
import { findFreePorts } from '../scripts/supervisor/ports.ts';
import { openSupervisor } from '../scripts/supervisor/supervisor.ts';

export const processNames = ['api', 'worker', 'temporal', 'postgres', 'model-server'] as const;

export type MeasuredRun = { wallMs: number; activitiesMs: number };

export type Upload = { id: string; runId: string };

/** The product as `npm start` runs it, on a temporary data folder. */
export type MeasuredProduct = {
  modelBaseUrl: string;
  dataDir: string;
  temporal: Client;
  /** Environment variables with which another process connects to this installation. */
  environment: Readonly<Record<string, string>>;
  /** Signs up a new user with a new organization, so that no cached embedding is reused. */
  signUp(): Promise<ApiClient>;
  upload(api: ApiClient, name: string, content: string | Uint8Array<ArrayBuffer>): Promise<Upload>;
  /** Waits for the result through Temporal: polling the API would take CPU time that is measured. */
  untilDone(runId: string): Promise<void>;
  untilStage(api: ApiClient, runId: string, stage: string): Promise<void>;
  readRun(runId: string): Promise<MeasuredRun>;
  /** CPU time of these processes and their child processes so far, in milliseconds. */
  cpuMs(...names: (typeof processNames)[number][]): Promise<number>;
  /** Memory of these processes and their child processes, with their share of what processes have in common (PSS). */
  memoryMb(...names: (typeof processNames)[number][]): Promise<number>;
  stop(): Promise<void>;
};

type Job = { status: string; stage: string | null; last_error: { code: string; message: string } | null };

const POLL_INTERVAL_MS = 100;

export async function startProduct(chosenSettings: Record<string, string> = {}): Promise<MeasuredProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-'));
  const chosen = await chooseFreePorts();
  Object.assign(process.env, chosen, { DATA_DIR: dataDir, LOG_LEVEL: 'warn' }, chosenSettings);
  const settings = readStartSettings(process.env);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  const stopEmbedded = async () => {
    await supervisor.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  const { apiUrl } = await startEmbedded(settings, supervisor, () => undefined).catch(async (error: unknown) => {
    await stopEmbedded();
    throw error;
  });
  const secrets = await openSecrets(dataDir, process.env);
  const connection = await Connection.connect({ address: `127.0.0.1:${chosen.TEMPORAL_PORT}` });
  const temporal = new Client({ connection });
  const anonymous = createApiClient(apiUrl);

  async function untilStage(api: ApiClient, runId: string, stage: string): Promise<void> {
    for (;;) {
      const job = await api.get<Job>(`/jobs/${runId}`);
      if (job.stage === stage) return;
      if (job.last_error !== null)
        throw new Error(`Job ${runId} failed: ${job.last_error.code}: ${job.last_error.message}`);
      await delay(POLL_INTERVAL_MS);
    }
  }

  /** If Temporal was busy, the product starts the workflow again within a second. */
  async function untilDone(runId: string): Promise<void> {
    const run = temporal.workflow.getHandle(runId);
    while (!(await run.describe().catch(() => null))) await delay(POLL_INTERVAL_MS);
    await run.result();
  }

  return {
    modelBaseUrl: `http://127.0.0.1:${chosen.MODEL_SERVER_PORT}/v1`,
    dataDir,
    temporal,
    environment: applicationEnvironment({ user: process.env, settings, secrets }),
    signUp: async () => {
      const { access_token } = await anonymous.post<{ access_token: string }>('/auth/register', {
        email: `bench-${process.hrtime.bigint()}@example.com`,
        password: newPassword(),
        display_name: 'Bench',
      });
      return anonymous.as(access_token);
    },
    upload: async (api, name, content) => {
      const file = { name, content: new Blob([content]) };
      const { id, parse_job_id } = await api.upload<{ id: string; parse_job_id: string }>('/documents', file);
      return { id, runId: parse_job_id.replace(/\.[^.]*$/, '') };
    },
    untilDone,
    untilStage,
    readRun: async (runId) => {
      const handle = temporal.workflow.getHandle(runId);
      const { events } = await handle.fetchHistory();
      return measureHistory(events ?? []);
    },
    cpuMs: async (...wanted) => cpuTimeMs(await pidsOf(dataDir, wanted)),
    memoryMb: async (...wanted) => memoryMb(await pidsOf(dataDir, wanted)),
    stop: async () => {
      await connection.close();
      await stopEmbedded();
    },
  };
}

/** A free port for every service that `npm start` can start, so that a running product is no obstacle. */
export async function chooseFreePorts(): Promise<Record<string, string>> {
  const names = ['', 'WORKER_', 'POSTGRES_', 'TEMPORAL_', 'TEMPORAL_UI_', 'MODEL_SERVER_', 'QDRANT_'];
  const ports = await findFreePorts(names.length);
  return Object.fromEntries(names.map((name, place) => [`${name}PORT`, String(ports[place])]));
}

type History = NonNullable<Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>['events']>;

/** Computes from a history the duration of the run, and the time in which at least one activity was running. */
function measureHistory(events: History): MeasuredRun {
  const timeOf = ({ eventTime }: History[number]) =>
    Number(eventTime?.seconds ?? 0) * 1_000 + (eventTime?.nanos ?? 0) / 1e6;
  const startedAt = new Map<string, number>();
  let activitiesMs = 0;
  for (const event of events) {
    if (event.activityTaskStartedEventAttributes) startedAt.set(String(event.eventId), timeOf(event));
    const done = event.activityTaskCompletedEventAttributes;
    if (done) activitiesMs += timeOf(event) - (startedAt.get(String(done.startedEventId)) ?? Number.NaN);
  }
  const [first, last] = [events[0], events.at(-1)];
  if (first === undefined || last === undefined) throw new Error('The workflow run has an empty history.');
  return { wallMs: timeOf(last) - timeOf(first), activitiesMs };
}

async function pidsOf(dataDir: string, wanted: readonly string[]): Promise<number[]> {
  const children = await readFile(join(dataDir, 'run', 'children.json'), 'utf8');
  const records = JSON.parse(children) as { name: string; pid: number }[];
  return records.filter(({ name }) => wanted.includes(name)).map(({ pid }) => pid);
}

/** CPU time of the processes with their threads and terminated child processes. */
async function cpuTimeMs(roots: readonly number[]): Promise<number> {
  const processes = await processTrees(roots);
  // Linux reports hundredths of a second for every kernel clock.
  return (
    processes.reduce((sum, { fields }) => sum + [11, 12, 13, 14].reduce((all, at) => all + Number(fields[at]), 0), 0) *
    10
  );
}

async function memoryMb(roots: readonly number[]): Promise<number> {
  let kilobytes = 0;
  for (const { pid } of await processTrees(roots)) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
    kilobytes += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
  }
  return Math.round(kilobytes / 1_024);
}

/** The processes and their child processes; `fields` are those of /proc/<pid>/stat from the state on. */
async function processTrees(roots: readonly number[]): Promise<{ pid: number; fields: string[] }[]> {
  const processes = new Map<number, string[]>();
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '') : '';
    if (stat !== '') processes.set(Number(name), stat.slice(stat.lastIndexOf(')') + 2).split(' '));
  }
  const isOurs = (pid: number): boolean => {
    if (roots.includes(pid)) return true;
    const parent = Number(processes.get(pid)?.[1] ?? 0);
    return parent > 1 && isOurs(parent);
  };
  return Array.from(processes, ([pid, fields]) => ({ pid, fields })).filter(({ pid }) => isOurs(pid));
}

import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { answersOk } from '../../scripts/launchers/http-probe.ts';
import { postgresUrl, preparePostgres } from '../../scripts/launchers/postgres.ts';
import { newPassword } from '../../scripts/secrets.ts';
import { readTestServiceSettings } from '../../scripts/settings.ts';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { openSupervisor } from '../../scripts/supervisor/supervisor.ts';
import { migrateDatabase } from '../../src/adapters/postgres/database.ts';
import { defaultRateLimits } from '../../src/domain/access/limits.ts';
import { until } from '../until.ts';
import type { BareWork } from './bare-pool.ts';

const probe = new URL('./cpu-probe.ts', import.meta.url).href;

export type User = { email: string; password: string; token: string; userId: string };

/** The measured processes: the API, the API without metrics, and the peers. */
export type Process = 'api' | 'unmeasured' | 'barePool' | 'bareServer';

export type MeasuredApi = {
  ports: { api: number; unmeasured: number; bareServer: number };
  signUp(): Promise<User>;
  logIn(user: User): Promise<void>;
  /** CPU time of a process while `work` runs, in microseconds. */
  cpuDuring<T>(process: Process, work: () => Promise<T>): Promise<{ result: T; cpuMicros: number }>;
  queryBare(work: BareWork): Promise<number>;
  stop(): Promise<void>;
};

/** Starts Postgres and the API with the settings of `npm start` but without rate limits, and the peers. */
export async function startMeasuredApi(): Promise<MeasuredApi> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-http-'));
  const [port = 0, unmeasuredPort = 0, barePort = 0, postgresPort = 0] = await findFreePorts(4);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, port: postgresPort, password: 'bench', durable: true }),
  ]);
  const databaseUrl = postgresUrl({ port: postgresPort, password: 'bench' });
  await migrateDatabase(databaseUrl);

  const nowhere = '127.0.0.1:1';
  const environment = {
    ...Object.fromEntries(Object.keys(defaultRateLimits).map((name) => [`RATE_LIMIT_${name.toUpperCase()}`, 'off'])),
    PATH: process.env.PATH ?? '',
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: '10',
    TEMPORAL_ADDRESS: nowhere,
    OPENAI_BASE_URL: `http://${nowhere}/v1`,
    JWT_PRIVATE_KEY: signingKey(),
    URL_SIGNING_KEY: createHash('sha256').update(dataDir).digest('hex'),
    ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
  };
  const start = (entry: string, ownPort: number) => {
    const path = join(import.meta.dirname, entry);
    const [program, ...args] = dieWithParent([process.execPath, '--import', probe, path], 'SIGTERM');
    const env = { ...environment, PORT: String(ownPort) };
    return spawn(program, args, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  };
  const processes: Record<Process, ChildProcess> = {
    api: start('../../src/server.ts', port),
    unmeasured: start('unmeasured-api.ts', unmeasuredPort),
    barePool: start('bare-pool.ts', 0),
    bareServer: start('bare-server.ts', barePort),
  };
  const baseUrl = `http://127.0.0.1:${port}`;
  for (const one of [port, unmeasuredPort]) {
    const url = `http://127.0.0.1:${one}/healthz`;
    await until('the API answers', () => answersOk(url).catch(() => false));
  }

  async function post(path: string, body: object): Promise<{ access_token: string }> {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${baseUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`POST ${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as { access_token: string };
  }
  const tell = async <Answer>(child: ChildProcess, message: object | string): Promise<Answer> => {
    child.send(message);
    const [answer] = await once(child, 'message');
    return answer as Answer;
  };
  const cpuMicros = async (name: Process) => {
    const { user, system } = await tell<NodeJS.CpuUsage>(processes[name], 'cpu');
    return user + system;
  };

  return {
    ports: { api: port, unmeasured: unmeasuredPort, bareServer: barePort },
    async signUp() {
      const [email, password] = [`bench-${process.hrtime.bigint()}@example.com`, newPassword()];
      const { access_token: token } = await post('/auth/register', { email, password });
      const { sub } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
      return { email, password, token, userId: sub };
    },
    async logIn({ email, password }) {
      await post('/auth/login', { username: email, password });
    },
    async cpuDuring(name, work) {
      const before = await cpuMicros(name);
      const result = await work();
      return { result, cpuMicros: (await cpuMicros(name)) - before };
    },
    queryBare: (work) => tell<number>(processes.barePool, work),
    async stop() {
      for (const child of Object.values(processes)) {
        const exit = once(child, 'exit');
        // An open IPC channel would keep the API process alive.
        child.disconnect();
        child.kill('SIGTERM');
        await exit;
      }
      await supervisor.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export function signingKey(): string {
  const encoding = { type: 'pkcs8', format: 'pem' } as const;
  return generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export(encoding).toString();
}

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { answersOk } from '../../scripts/launchers/http-probe.ts';
import { postgresUrl, preparePostgres } from '../../scripts/launchers/postgres.ts';
import { s3Gateway, s3GatewayKey, s3GatewayUrl } from '../../scripts/launchers/s3-gateway.ts';
import { s3Program } from '../../scripts/s3-program.ts';
import { newPassword } from '../../scripts/secrets.ts';
import { readTestServiceSettings } from '../../scripts/settings.ts';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { openSupervisor } from '../../scripts/supervisor/supervisor.ts';
import { migrateDatabase } from '../../src/adapters/postgres/database.ts';
import { signingKey } from '../http/measured-api.ts';
import { until } from '../until.ts';

const BUCKET = 'bench';

export type Server = { name: string; pid: number; url: string };
export type Api = Server & { token: string };

/** Starts one API process for each kind of blob store, and the bare peer server. */
export async function startServers(): Promise<{ apis: Api[]; bare: Server; stop(): Promise<void> }> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-transfer-'));
  const [postgresPort = 0, s3Port = 0, barePort = 0, ...apiPorts] = await findFreePorts(5);
  const program = await s3Program(toolsDir, new AbortController().signal);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, port: postgresPort, password: 'bench', durable: true }),
    ...(program === null ? [] : [await s3Gateway({ program, dataDir, port: s3Port })]),
  ]);
  const databaseUrl = postgresUrl({ port: postgresPort, password: 'bench' });
  await migrateDatabase(databaseUrl);
  // The S3 test server stores a bucket as a folder.
  await mkdir(join(dataDir, 's3', 'buckets', BUCKET), { recursive: true });

  const children: ChildProcess[] = [];
  const start = (entry: string, port: number, environment: Record<string, string>) => {
    const [command, ...args] = dieWithParent([process.execPath, join(import.meta.dirname, entry)], 'SIGTERM');
    const env = { PATH: process.env.PATH ?? '', PORT: String(port), DATA_DIR: dataDir, ...environment };
    const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
    children.push(child);
    return { pid: child.pid ?? 0, url: `http://127.0.0.1:${port}` };
  };
  const nowhere = '127.0.0.1:1';
  const ofEveryApi = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: nowhere,
    OPENAI_BASE_URL: `http://${nowhere}/v1`,
    JWT_PRIVATE_KEY: signingKey(),
    URL_SIGNING_KEY: 'of this benchmark and of nothing else',
    ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
    TIER_LIMITS: JSON.stringify({ free: { fileSizeBytes: 1024 ** 3, storageBytes: 100 * 1024 ** 3 } }),
  };
  const stores = {
    'a folder': {},
    ...(program !== null && {
      S3: {
        S3_ENDPOINT: s3GatewayUrl(s3Port),
        S3_BUCKET: BUCKET,
        S3_ACCESS_KEY_ID: s3GatewayKey.accessKeyId,
        S3_SECRET_ACCESS_KEY: s3GatewayKey.secretAccessKey,
      },
    }),
  };

  async function startApi(name: string, settings: Record<string, string>): Promise<Api> {
    const server = start('../../src/server.ts', apiPorts.pop() ?? 0, { ...ofEveryApi, ...settings });
    await until('the API answers', () => answersOk(`${server.url}/healthz`).catch(() => false));
    const answer = await fetch(`${server.url}/auth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: `bench-${process.hrtime.bigint()}@example.com`, password: newPassword() }),
    });
    const { access_token } = (await answer.json()) as { access_token: string };
    return { name, ...server, token: access_token };
  }
  const apis: Api[] = [];
  for (const [name, settings] of Object.entries(stores)) apis.push(await startApi(name, settings));
  const bare = { name: 'bare', ...start('bare-server.ts', barePort, {}) };
  return {
    apis,
    bare,
    async stop() {
      for (const child of children) {
        const exit = once(child, 'exit');
        child.kill('SIGTERM');
        await exit;
      }
      await supervisor.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

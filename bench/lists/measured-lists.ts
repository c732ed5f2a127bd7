import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { answersOk } from '../../scripts/launchers/http-probe.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from '../../scripts/launchers/postgres.ts';
import { newPassword } from '../../scripts/secrets.ts';
import { readTestServiceSettings } from '../../scripts/settings.ts';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { openSupervisor } from '../../scripts/supervisor/supervisor.ts';
import { createArgon2Hasher } from '../../src/adapters/passwords/argon2-hasher.ts';
import { migrateDatabase } from '../../src/adapters/postgres/database.ts';
import { defaultRateLimits } from '../../src/domain/access/limits.ts';
import { signingKey } from '../http/measured-api.ts';
import { until } from '../until.ts';
import type { Person, Reader, TableRow } from './dataroom.ts';
import { loadRows } from './load.ts';

type Generate<Room> = (size: number, passwordHash: string) => Room & { rows: Iterable<TableRow> };

/** An organization of one size in its own database, with its own API process. */
export type Measured<Room> = Omit<Room, 'rows'> & {
  size: number;
  read(as: Reader, path: string): Promise<unknown>;
  /** @returns the latency of the request in milliseconds */
  get(as: Reader, path: string): Promise<number>;
  /** @returns the duration in milliseconds of a statement on a separate connection */
  query(sql: string, values: unknown[]): Promise<number>;
};

/**
 * Starts one Postgres with an organization of each size and their APIs, with the settings of `npm start` but without
 * rate limits.
 */
export async function startMeasuredLists<Room extends { people: Record<Reader, Person> }>(
  sizes: readonly number[],
  generate: Generate<Room>,
): Promise<{ rooms: Measured<Room>[]; stop(): Promise<void> }> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-lists-'));
  const [postgresPort = 0, ...ports] = await findFreePorts(1 + sizes.length);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, port: postgresPort, password: 'bench', durable: false }),
  ]);
  const password = newPassword();
  const passwordHash = await createArgon2Hasher({ memoryMiB: 19 }).hash(password, 'bench');
  const stops: (() => Promise<unknown>)[] = [];

  async function open(size: number, port: number): Promise<Measured<Room>> {
    const database = `size_${size}`;
    const at = { port: postgresPort, password: 'bench' };
    const databaseUrl = postgresUrl({ ...at, database });
    await ensureDatabase(postgresUrl(at), database);
    await migrateDatabase(databaseUrl);
    const { rows, ...room } = generate(size, passwordHash);
    await loadRows(databaseUrl, rows);
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    const api = startApi({ port, databaseUrl, dataDir: join(dataDir, database) });
    stops.push(
      () => client.end(),
      async () => {
        api.kill('SIGTERM');
        await once(api, 'exit');
      },
    );
    const baseUrl = `http://127.0.0.1:${port}`;
    await until('the API answers', () => answersOk(`${baseUrl}/healthz`).catch(() => false));
    const tokens = new Map<Reader, string>();
    for (const [reader, { email }] of Object.entries(room.people)) {
      const body = JSON.stringify({ username: email, password });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${baseUrl}/auth/login`, { method: 'POST', headers, body });
      const { access_token: token } = (await answer.json()) as { access_token: string };
      tokens.set(reader as Reader, token);
    }
    const textAt = async (as: Reader, path: string): Promise<string> => {
      const answer = await fetch(baseUrl + path, { headers: { authorization: `Bearer ${tokens.get(as)}` } });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`GET ${path} answered ${answer.status}: ${text}`);
      return text;
    };
    return {
      ...room,
      size,
      read: async (as, path) => JSON.parse(await textAt(as, path)),
      async get(as, path) {
        const startedAt = performance.now();
        await textAt(as, path);
        return performance.now() - startedAt;
      },
      async query(sql, values) {
        const startedAt = performance.now();
        await client.query(sql, values);
        return performance.now() - startedAt;
      },
    };
  }

  const stop = async () => {
    for (const end of stops) await end();
    await supervisor.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const rooms: Measured<Room>[] = [];
    for (const [place, size] of sizes.entries()) rooms.push(await open(size, ports[place] ?? 0));
    return { rooms, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startApi(at: { port: number; databaseUrl: string; dataDir: string }): ChildProcess {
  const nowhere = '127.0.0.1:1';
  const env = {
    ...Object.fromEntries(Object.keys(defaultRateLimits).map((name) => [`RATE_LIMIT_${name.toUpperCase()}`, 'off'])),
    PATH: process.env.PATH ?? '',
    PORT: String(at.port),
    DATA_DIR: at.dataDir,
    DATABASE_URL: at.databaseUrl,
    LOG_LEVEL: 'warn',
    TEMPORAL_ADDRESS: nowhere,
    // The benchmark can outlast the default lifetime of an access token.
    ACCESS_TOKEN_SECONDS: '86400',
    OPENAI_BASE_URL: `http://${nowhere}/v1`,
    JWT_PRIVATE_KEY: signingKey(),
    URL_SIGNING_KEY: createHash('sha256').update(at.dataDir).digest('hex'),
    ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
  };
  const entry = join(import.meta.dirname, '..', '..', 'src', 'server.ts');
  const [program, ...args] = dieWithParent([process.execPath, entry], 'SIGTERM');
  return spawn(program, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
}

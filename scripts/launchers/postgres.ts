import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { dieWithParent } from '../supervisor/parent-death.ts';
import { processStart } from '../supervisor/process-lock.mjs';
import { StartFailure } from '../supervisor/start-failure.ts';
import { findPostgresAccount, type PostgresAccount } from './postgres-account.ts';
import { serviceEnvironment } from './service-environment.ts';

// The name of the database folder contains the major version, because Postgres cannot read files of another one.
const MAJOR_VERSION = 18;
const USER = 'postgres';
const REAP_TIMEOUT_MS = 5_000;

export type PostgresOptions = {
  toolsDir: string;
  dataDir: string;
  port: number;
  password: string;
  /** False disables fsync: a crash of the machine may corrupt the database, which is acceptable for tests only. */
  durable: boolean;
  /** Autovacuum, on by default, updates the planner's statistics at unpredictable times. */
  autovacuum?: boolean;
  say?: (line: string) => void;
};

export async function preparePostgres(options: PostgresOptions): Promise<ChildSpec> {
  const { dataDir, port, password, durable } = options;
  const account = findPostgresAccount(options.toolsDir, dataDir);
  const cluster = join(dataDir, `postgres-${MAJOR_VERSION}`);
  if (existsSync(cluster)) await forgetDeadServer(cluster);
  else {
    options.say?.('  postgres creates its database files (only at the first start)');
    await createCluster({ cluster, password, account, durable });
  }

  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '128MB',
    max_wal_size: '512MB',
    // JIT compilation pays for long analytical queries; here it only delays short ones.
    jit: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // Error details would log values of rows.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...(options.autovacuum === false && { autovacuum: 'off' }),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return {
    name: 'postgres',
    command: [...account.command('postgres'), '-D', cluster, ...flags],
    env: serviceEnvironment(),
    ...(account.user && { user: account.user }),
    // SIGINT is the fast shutdown of Postgres, which ends open sessions. SIGTERM would wait for the sessions.
    stopSignal: 'SIGINT',
    stopTimeoutMs: 10_000,
    readyTimeoutMs: 120_000,
    isReady: async () => {
      await withClient(postgresUrl({ port, password }), (client) => client.query('select 1'));
      return true;
    },
  };
}

export function postgresUrl(at: { port: number; password: string; database?: string }): string {
  return `postgres://${USER}:${encodeURIComponent(at.password)}@127.0.0.1:${at.port}/${at.database ?? 'postgres'}`;
}

export async function ensureDatabase(adminUrl: string, database: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [database]);
    if (rowCount === 0) await client.query(`create database ${client.escapeIdentifier(database)}`);
  });
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  // A broken connection rejects the query in flight; without a listener its `error` event would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.end();
  }
}

/**
 * Prepares the restart of a killed Postgres, which refuses to start while a process has the pid in postmaster.pid.
 * Waits until the old server is reaped, and deletes the file if the pid belongs to an unrelated process after a reboot.
 */
async function forgetDeadServer(cluster: string): Promise<void> {
  const path = join(cluster, 'postmaster.pid');
  const pid = Number.parseInt(await readFile(path, 'utf8').catch(() => ''), 10);
  if (!(pid > 0)) return;
  for (const deadline = Date.now() + REAP_TIMEOUT_MS; isTaken(pid) && Date.now() < deadline; ) await delay(50);
  if (isTaken(pid) && !(await isPostgres(pid))) await rm(path, { force: true });
}

/** Checks a pid as Postgres does: a zombie process counts too. */
function isTaken(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

async function isPostgres(pid: number): Promise<boolean> {
  if (processStart(pid) === null) return false;
  const name = readFile(`/proc/${pid}/comm`, 'utf8').catch(async () => {
    return (await promisify(execFile)('ps', ['-o', 'comm=', '-p', String(pid)])).stdout;
  });
  return (await name).includes('postgres');
}

/**
 * Creates the cluster in a temporary folder and renames it, so that an interrupted start leaves no incomplete cluster.
 */
async function createCluster(at: {
  cluster: string;
  password: string;
  account: PostgresAccount;
  durable: boolean;
}): Promise<void> {
  const { cluster, password, account, durable } = at;
  const draft = `${cluster}.new`;
  const passwordFile = `${cluster}.password`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true, mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (account.user) {
    for (const path of [draft, passwordFile]) await chown(path, account.user.uid, account.user.gid);
  }
  const [program, ...args] = dieWithParent(
    [
      ...account.command('initdb'),
      ...['--pgdata', draft, '--username', USER, '--pwfile', passwordFile],
      ...['--auth', 'scram-sha-256', '--encoding', 'UTF8'],
      // Postgres's built-in locale provider sorts the same on every machine; the C locale would know ASCII letters
      // only.
      ...['--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8', '--lc-collate', 'C'],
      ...['--lc-ctype', process.platform === 'darwin' ? 'en_US.UTF-8' : 'C.UTF-8', '--lc-messages', 'C'],
      ...(durable ? [] : ['--no-sync']),
    ],
    'SIGKILL',
  );
  await promisify(execFile)(program, args, { env: serviceEnvironment(), ...account.user }).catch(async (error) => {
    await rm(draft, { recursive: true, force: true });
    const said = String(error.stderr || error.message);
    const reason = said.includes('No space left on device') ? ' the disk is full.' : `\n${said}`;
    throw new StartFailure(`The database could not be created in ${cluster}:${reason}`);
  });
  await rename(draft, cluster);
  await rm(passwordFile);
}

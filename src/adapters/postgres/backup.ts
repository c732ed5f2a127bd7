import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import pg from 'pg';
import type { DatabaseDumps, MaintenanceLock } from '#src/ports/backup.ts';

const LOCK = 7_352;
/** TCP keep-alive interval: shorter than usual idle timeouts of proxies. */
const KEEP_ALIVE_MS = 60_000;

/** Holds the backup lock on a separate connection, so that Postgres releases it when the process is killed. */
export function createMaintenanceLock(databaseUrl: string): MaintenanceLock {
  return async (work) => {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'admin',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    });
    // Without a listener, a lost connection would end the process; the caller's queries fail anyway.
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query('set idle_session_timeout = 0');
      const { rowCount } = await client.query('select where pg_try_advisory_lock($1)', [LOCK]);
      if (rowCount === 0) throw new Error('Another command is backing up or restoring this database.');
      return await work();
    } finally {
      await client.end().catch(() => undefined);
    }
  };
}

type Program = 'pg_dump' | 'pg_restore';

const usualFolders = ['/usr/local/bin', '/opt/homebrew/opt/libpq/bin', '/opt/homebrew/bin', '/usr/bin'];
const debianFolder = '/usr/lib/postgresql';

/** Dumps and restores with pg_dump and pg_restore, so that operators can read dumps without this code. */
export function createDatabaseDumps(options: { databaseUrl: string; programsDir: string }): DatabaseDumps {
  const { databaseUrl, programsDir } = options;

  async function find(program: Program, major: number): Promise<string> {
    const found: string[] = [];
    for (const folder of [programsDir, ...(await debianFolders()), ...usualFolders]) {
      const path = join(folder, program);
      const version = await versionOf(path);
      if (version === null) continue;
      if (version >= major) return path;
      found.push(`${path} has version ${version}`);
    }
    const tooOld = found.length > 0 ? ` (${found.join(', ')})` : '';
    throw new Error(
      `No ${program} of version ${major} or newer was found${tooOld}: install the client programs of Postgres ${major}.`,
    );
  }

  async function run(path: string, args: readonly string[]): Promise<void> {
    const { url, password } = withoutPassword(databaseUrl);
    const child = spawn(path, [...args, '--no-password', `--dbname=${url}`], {
      // The password is not an argument, because all users of the machine can see arguments.
      env: { PATH: usualFolders.join(':'), LC_ALL: 'C', ...(password !== null && { PGPASSWORD: password }) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const end = () => child.kill('SIGKILL');
    process.once('exit', end);
    try {
      const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
      if (code !== 0) throw new Error(firstError(said) ?? `${path} failed with exit code ${code}.`);
    } finally {
      process.off('exit', end);
    }
  }

  return {
    async write({ path, snapshot, serverMajor, withoutRowsOf, without }) {
      await run(await find('pg_dump', serverMajor), [
        ...['--format=custom', '--no-owner', '--no-privileges'],
        ...[`--snapshot=${snapshot}`, `--file=${path}`],
        ...withoutRowsOf.map((table) => `--exclude-table-data=public.${table}`),
        ...without.map((table) => `--exclude-table=public.${table}`),
      ]);
    },

    async restore({ path, writtenByMajor }) {
      await run(await find('pg_restore', writtenByMajor), [
        ...['--single-transaction', '--exit-on-error'],
        // The restoring role becomes the owner of all objects, and needs no rights to comment on extensions.
        ...['--no-owner', '--no-privileges', '--no-comments'],
        path,
      ]);
    },
  };
}

async function debianFolders(): Promise<string[]> {
  const versions = await readdir(debianFolder).catch(() => []);
  return versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(debianFolder, version, 'bin'));
}

async function versionOf(path: string): Promise<number | null> {
  const said = await promisify(execFile)(path, ['--version']).catch(() => null);
  const version = /\(PostgreSQL\) (\d+)/.exec(said?.stdout ?? '')?.[1];
  return version === undefined ? null : Number(version);
}

function withoutPassword(databaseUrl: string): { url: string; password: string | null } {
  const url = new URL(databaseUrl);
  const password = url.password === '' ? null : decodeURIComponent(url.password);
  url.password = '';
  return { url: url.href, password };
}

/** Returns the first line of an error only, because the details after it may quote rows. */
function firstError(said: string): string | undefined {
  return said.split('\n').find((line) => line.includes('error:'));
}

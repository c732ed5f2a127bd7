import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { DatabaseDumps } from '#src/ports/backup.ts';

type Program = 'pg_dump' | 'pg_restore';

const usualFolders = ['/usr/local/bin', '/opt/homebrew/opt/libpq/bin', '/opt/homebrew/bin', '/usr/bin'];
/** Here Debian keeps the programs of each version. */
const debianFolder = '/usr/lib/postgresql';

/**
 * By the programs of Postgres itself: what they write can also be read by hand, long after this code.
 * @param options.programsDir where they are looked for before the places where packages put them
 */
export function createDatabaseDumps(options: { databaseUrl: string; programsDir: string }): DatabaseDumps {
  const { databaseUrl, programsDir } = options;

  /** The first that knows this version of Postgres. */
  async function find(program: Program, major: number): Promise<string> {
    const found: string[] = [];
    for (const folder of [programsDir, ...(await debianFolders()), ...usualFolders]) {
      const path = join(folder, program);
      const version = await versionOf(path);
      if (version === null) continue;
      if (version >= major) return path;
      found.push(`${path} is of ${version}`);
    }
    const known = found.length > 0 ? ` (${found.join(', ')})` : '';
    throw new Error(`There is no ${program} of Postgres ${major} or newer here${known}: install its client programs.`);
  }

  async function run(path: string, args: readonly string[]): Promise<void> {
    const { url, password } = withoutPassword(databaseUrl);
    const child = spawn(path, [...args, '--no-password', `--dbname=${url}`], {
      // The password is no argument: those are seen by everybody on the machine.
      env: { PATH: usualFolders.join(':'), LC_ALL: 'C', ...(password !== null && { PGPASSWORD: password }) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const end = () => child.kill('SIGKILL');
    process.once('exit', end);
    try {
      const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
      if (code !== 0) throw new Error(firstError(said) ?? `${path} ended with ${code}.`);
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
        // Whoever restores owns what he makes; a comment on an extension may only be made by the one who made that.
        ...['--no-owner', '--no-privileges', '--no-comments'],
        path,
      ]);
    },
  };
}

/** Newest first. */
async function debianFolders(): Promise<string[]> {
  const versions = await readdir(debianFolder).catch(() => []);
  return versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(debianFolder, version, 'bin'));
}

/** Its major version; null where there is no such program. */
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

/** What the program says first; details below it may quote rows. */
function firstError(said: string): string | undefined {
  return said.split('\n').find((line) => line.includes('error:'));
}

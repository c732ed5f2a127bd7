import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { StartFailure } from '../supervisor/start-failure.ts';

// "nobody" on Linux.
const NOBODY = { uid: 65534, gid: 65534 };
const UNSHARE = ['unshare', '--user', `--map-user=${NOBODY.uid}`, `--map-group=${NOBODY.gid}`, '--'] as const;
const REACHABLE_BY_ALL = '/var/lib/agent-conversation-service';

/** As whom, and from where, the programs of Postgres run. */
export type PostgresAccount = {
  command: (program: 'postgres' | 'initdb') => readonly [string, ...string[]];
  user?: { uid: number; gid: number };
};

/**
 * Postgres refuses to run as root. A user namespace makes root look like nobody to it and keeps every file where it is;
 * where namespaces are forbidden (most containers) it really runs as nobody, who must be able to reach the files.
 * @throws StartFailure when no way is open
 */
export async function findPostgresAccount(toolsDir: string, dataDir: string): Promise<PostgresAccount> {
  if (process.getuid?.() !== 0) return { command: (program) => [programIn(toolsDir, program)] };
  if (succeeds([...UNSHARE, 'true'])) return { command: (program) => [...UNSHARE, programIn(toolsDir, program)] };
  if (!succeeds(['test', '-x', dataDir], NOBODY)) {
    throw new StartFailure(
      `Postgres does not run as root, and "nobody" cannot reach ${resolve(dataDir)}: start as another user, or set DATA_DIR to a folder such as ${REACHABLE_BY_ALL}/data.`,
    );
  }
  const isReachable = succeeds([programIn(toolsDir, 'postgres'), '--version'], NOBODY);
  const home = isReachable ? toolsDir : await copyForAll(toolsDir);
  return { command: (program) => [programIn(home, program)], user: NOBODY };
}

function programIn(toolsDir: string, program: string): string {
  return join(toolsDir, 'embedded_postgres', 'pginstall', 'bin', program);
}

function succeeds(command: readonly string[], user: { uid?: number; gid?: number } = {}): boolean {
  const [program = '', ...args] = command;
  return spawnSync(program, args, { stdio: 'ignore', cwd: '/', ...user }).status === 0;
}

async function copyForAll(toolsDir: string): Promise<string> {
  const copy = join(REACHABLE_BY_ALL, basename(toolsDir));
  if (existsSync(copy)) return copy;
  const draft = `${copy}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  await chmod(draft, 0o755);
  for (const part of ['embedded_postgres', 'embedded_postgres.libs']) {
    const from = join(toolsDir, part);
    // The libraries are a folder of their own in the Linux package only.
    if (existsSync(from)) await cp(from, join(draft, part), { recursive: true, preserveTimestamps: true });
  }
  await rename(draft, copy).catch(() => rm(draft, { recursive: true, force: true }));
  return copy;
}

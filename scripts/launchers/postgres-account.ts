import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, renameSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { StartFailure } from '../supervisor/start-failure.ts';

const NOBODY = { uid: 65534, gid: 65534 };
const UNSHARE = ['unshare', '--user', `--map-user=${NOBODY.uid}`, `--map-group=${NOBODY.gid}`, '--'] as const;
const REACHABLE_BY_ALL = '/var/lib/agent-conversation-service';

export type PostgresAccount = {
  command: (program: 'postgres' | 'initdb') => readonly [string, ...string[]];
  user?: { uid: number; gid: number };
};

/**
 * Postgres refuses to run as root. In a user namespace root appears as the Linux user "nobody", and files stay where
 * they are. Where namespaces are forbidden (most containers), Postgres really runs as that user, which must be able to
 * read the files.
 * @throws StartFailure if neither is possible
 */
export function findPostgresAccount(toolsDir: string, dataDir: string): PostgresAccount {
  if (process.getuid?.() !== 0) return { command: (program) => [programIn(toolsDir, program)] };
  if (succeeds([...UNSHARE, 'true'])) return { command: (program) => [...UNSHARE, programIn(toolsDir, program)] };
  // The other user needs only the execute permission on the data folder, because it owns the database folder inside.
  chmodSync(dataDir, 0o711);
  if (!succeeds(['test', '-x', dataDir], NOBODY)) {
    throw new StartFailure(
      `Postgres does not run as root, and "nobody" cannot reach ${resolve(dataDir)}: start as another user, or set DATA_DIR to a folder such as ${REACHABLE_BY_ALL}/data.`,
    );
  }
  const isReachable = succeeds([programIn(toolsDir, 'postgres'), '--version'], NOBODY);
  const home = isReachable ? toolsDir : copyForAll(toolsDir);
  return { command: (program) => [programIn(home, program)], user: NOBODY };
}

function programIn(toolsDir: string, program: string): string {
  return join(toolsDir, 'embedded_postgres', 'pginstall', 'bin', program);
}

function succeeds(command: readonly string[], user: { uid?: number; gid?: number } = {}): boolean {
  const [program = '', ...args] = command;
  return spawnSync(program, args, { stdio: 'ignore', cwd: '/', ...user }).status === 0;
}

/** Copies the programs with a permissive umask. Synchronous, so that no other code creates files under that umask. */
function copyForAll(toolsDir: string): string {
  const copy = join(REACHABLE_BY_ALL, basename(toolsDir));
  if (existsSync(copy)) return copy;
  const draft = `${copy}.${process.pid}`;
  const umask = process.umask(0o022);
  try {
    for (const part of ['embedded_postgres', 'embedded_postgres.libs']) {
      // Only the Linux package has its libraries in a separate folder.
      if (existsSync(join(toolsDir, part))) cpSync(join(toolsDir, part), join(draft, part), { recursive: true });
    }
  } finally {
    process.umask(umask);
  }
  renameSync(draft, copy);
  return copy;
}

import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, sep } from 'node:path';

const script = join(import.meta.dirname, 'parser-sandbox.pl');

export const programSearchPath = '/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin';

/**
 * System folders that a sandboxed parser may read. /usr is not allowed as a whole, because it may contain data of
 * applications.
 */
const systemFolders = [
  ...['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store'],
  ...['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libexec', 'share'].map((name) => `/usr/${name}`),
  ...['bin', 'lib', 'lib64', 'share'].map((name) => `/usr/local/${name}`),
];
const systemFiles = [
  ...['/etc/ld.so.cache', '/etc/localtime', '/dev/urandom'],
  // Node does not start if OpenSSL's configuration file exists but cannot be read.
  ...['/etc/ssl/openssl.cnf', '/etc/pki/tls/openssl.cnf', '/etc/crypto-policies'],
  // Lets the PDF parser measure its own memory; other processes stay invisible.
  '/proc/self',
];

/** Absolute paths (with everything below them) and system calls that a sandboxed parser may also use. */
export type SandboxPermissions = {
  read: readonly string[];
  write?: readonly string[];
  unixSockets?: boolean;
  /** Allows child processes in the parser's process group; otherwise the parser can only start threads. */
  childProcesses?: boolean;
};

type Command = readonly [program: string, ...args: string[]];

/** Sandbox for programs that parse users' files: they can read no secrets and no other files, and have no network. */
export type ParserSandbox = {
  missing: string | null;
  confine(command: Command, access: SandboxPermissions): Command;
};

export function createParserSandbox(mode: 'auto' | 'off'): ParserSandbox {
  const missing = mode === 'off' ? 'PARSER_SANDBOX is off' : whatIsMissing();
  if (missing !== null) return { missing, confine: (command) => command };
  return {
    missing,
    confine([program, ...args], access) {
      const path = (isAbsolute(program) ? program : findProgramOnPath(program)) ?? program;
      return confined([path, ...args], access);
    },
  };
}

export function findProgramOnPath(name: string): string | null {
  const paths = programSearchPath.split(':').map((folder) => join(folder, name));
  return paths.find(isExecutableFile) ?? null;
}

export function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function confined(
  command: Command,
  { read, write = [], unixSockets = false, childProcesses = false }: SandboxPermissions,
): Command {
  const readable = [
    ...systemFolders,
    ...systemFiles,
    ...foldersOf(process.execPath),
    ...foldersOf(command[0]),
    ...read,
  ];
  return [
    findProgramOnPath('perl') ?? 'perl',
    '-w',
    script,
    process.arch,
    ...readable.flatMap((path) => ['--read', path]),
    ...write.flatMap((path) => ['--write', path]),
    ...(unixSockets ? ['--unix-sockets'] : []),
    ...(childProcesses ? ['--child-processes'] : []),
    '--',
    ...command,
  ];
}

function foldersOf(program: string): string[] {
  let folder: string;
  try {
    folder = dirname(realpathSync(program));
  } catch {
    return [];
  }
  if (systemFolders.some((name) => folder === name || folder.startsWith(name + sep))) return [];
  if (basename(folder) !== 'bin') return [folder];
  // Allows only the lib folders of the parent folder: for a program in ~/bin, the parent is the user's home.
  return [folder, ...['lib', 'lib64'].map((name) => join(dirname(folder), name)).filter((path) => existsSync(path))];
}

let found: { missing: string | null } | undefined;

function whatIsMissing(): string | null {
  found ??= { missing: tryOnce() };
  return found.missing;
}

function tryOnce(): string | null {
  if (process.platform !== 'linux') return 'only Linux has Landlock';
  if (findProgramOnPath('perl') === null) return 'perl is not installed';
  // The sandbox is tested with Node, which needs more of the system than the other parsers.
  const [program, ...args] = confined([process.execPath, '-e', ''], { read: [] });
  const { status, stderr, error } = spawnSync(program, args, { env: {}, encoding: 'utf8' });
  if (status === 0) return null;
  return stderr?.trim().replace(/^sandbox: /, '') || error?.message || `exit code ${status}`;
}

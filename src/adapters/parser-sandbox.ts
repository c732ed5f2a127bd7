import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, sep } from 'node:path';

const script = join(import.meta.dirname, 'parser-sandbox.pl');

/** Where child processes look for programs. */
export const usualPath = '/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin';

/** Programs and libraries of the system. Not all of /usr: applications and their data are in /usr/src and /usr/local, too. */
const systemFolders = [
  ...['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store'],
  ...['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libexec', 'share'].map((name) => `/usr/${name}`),
  ...['bin', 'lib', 'lib64', 'share'].map((name) => `/usr/local/${name}`),
];
const systemFiles = [
  ...['/etc/ld.so.cache', '/etc/localtime', '/dev/urandom'],
  // Node does not start when OpenSSL finds its configuration and cannot read it.
  ...['/etc/ssl/openssl.cnf', '/etc/pki/tls/openssl.cnf', '/etc/crypto-policies'],
  // Of the processes, each sees itself only: PDFium's measures its memory here.
  '/proc/self',
];

/** What a parser gets besides the system's programs and libraries. All paths are absolute and stand for what is below. */
export type ParserAccess = {
  read: readonly string[];
  write?: readonly string[];
  /** Local sockets between its own processes. */
  unixSockets?: boolean;
  /** Processes of its own, all in its process group. Without it, the program can start threads only. */
  childProcesses?: boolean;
};

type Command = readonly [program: string, ...args: string[]];

/** Starts programs that read files of strangers where they reach no secret, no other file and no network. */
export type ParserSandbox = {
  /** Why programs run without one; null when they run in it. */
  missing: string | null;
  /** The command that runs this command in the sandbox; the same command where there is none. */
  confine(command: Command, access: ParserAccess): Command;
};

/** `off` changes nothing about programs; `auto` confines them where the system can. */
export function createParserSandbox(mode: 'auto' | 'off'): ParserSandbox {
  const missing = mode === 'off' ? 'PARSER_SANDBOX is off' : whatIsMissing();
  if (missing !== null) return { missing, confine: (command) => command };
  return {
    missing,
    confine([program, ...args], access) {
      const path = (isAbsolute(program) ? program : findProgram(program)) ?? program;
      return confined([path, ...args], access);
    },
  };
}

/** The program's absolute path; null when it is not in the usual places. */
export function findProgram(name: string): string | null {
  const paths = usualPath.split(':').map((folder) => join(folder, name));
  return paths.find(isExecutable) ?? null;
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function confined(
  command: Command,
  { read, write = [], unixSockets = false, childProcesses = false }: ParserAccess,
): Command {
  const readable = [
    ...systemFolders,
    ...systemFiles,
    ...foldersOf(process.execPath),
    ...foldersOf(command[0]),
    ...read,
  ];
  return [
    findProgram('perl') ?? 'perl',
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

/** Where a program and its libraries are, if that is not in the system's folders. */
function foldersOf(program: string): string[] {
  let folder: string;
  try {
    folder = dirname(realpathSync(program));
  } catch {
    return [];
  }
  if (systemFolders.some((name) => folder === name || folder.startsWith(name + sep))) return [];
  if (basename(folder) !== 'bin') return [folder];
  // Not all of its parent: for a program in ~/bin that is everything of a user.
  return [folder, ...['lib', 'lib64'].map((name) => join(dirname(folder), name)).filter((path) => existsSync(path))];
}

let found: { missing: string | null } | undefined;

/** Tried once in a process, since it depends on the system only. */
function whatIsMissing(): string | null {
  found ??= { missing: tryOnce() };
  return found.missing;
}

function tryOnce(): string | null {
  if (process.platform !== 'linux') return 'only Linux has Landlock';
  if (findProgram('perl') === null) return 'perl is not installed';
  // Node needs more of the system than any other program that parses.
  const [program, ...args] = confined([process.execPath, '-e', ''], { read: [] });
  const { status, stderr, error } = spawnSync(program, args, { env: {}, encoding: 'utf8' });
  if (status === 0) return null;
  return stderr?.trim().replace(/^sandbox: /, '') || error?.message || `exit code ${status}`;
}

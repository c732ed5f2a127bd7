import { execFile, spawn } from 'node:child_process';
import { constants, existsSync, realpathSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { availableParallelism, setPriority } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import { appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/documents.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { findProgramOnPath, isExecutableFile, type ParserSandbox, programSearchPath } from '../parser-sandbox.ts';

const MiB = 1024 ** 2;

export type PdfRenderLimits = {
  wallMs: number;
  memoryBytes: number;
  pdfBytes: number;
};

export const defaultPdfRenderLimits: Readonly<PdfRenderLimits> = {
  // LibreOffice needs a minute on a slow core to render a workbook of a hundred thousand rows.
  wallMs: 120_000,
  memoryBytes: 1_500 * MiB,
  pdfBytes: 256 * MiB,
};

export const pdfTooLargeMessage = 'The PDF made from this file exceeds the size limit.';

/**
 * LibreOffice settings that block macros and external links. Downloads go to a proxy port on which nothing listens, so
 * they fail.
 */
const settings: [path: string, name: string, value: string][] = [
  ['Office.Common/Security/Scripting', 'DisableMacrosExecution', 'true'],
  ['Office.Common/Security/Scripting', 'MacroSecurityLevel', '3'],
  ['Office.Common/Security/Scripting', 'DisableActiveContent', 'true'],
  ['Office.Common/Security/Scripting', 'BlockUntrustedRefererLinks', 'true'],
  ['Office.Writer/Content/Update', 'Link', '0'],
  ['Office.Calc/Content/Update', 'Link', '1'],
  ['Inet/Settings', 'ooInetProxyType', '2'],
  ['Inet/Settings', 'ooInetHTTPProxyName', '127.0.0.1'],
  ['Inet/Settings', 'ooInetHTTPProxyPort', '9'],
  ['Inet/Settings', 'ooInetHTTPSProxyName', '127.0.0.1'],
  ['Inet/Settings', 'ooInetHTTPSProxyPort', '9'],
];

async function writeOfficeProfile(folder: string): Promise<void> {
  const items = settings.map(([path, name, value]) => {
    const property = `<prop oor:name="${name}" oor:op="fuse"><value>${value}</value></prop>`;
    return `<item oor:path="/org.openoffice.${path}">${property}</item>`;
  });
  await mkdir(join(folder, 'user'), { recursive: true });
  await writeFile(
    join(folder, 'user', 'registrymodifications.xcu'),
    `<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry">${items.join('')}</oor:items>\n`,
  );
}

const version = 'libreoffice 1';

const usualPaths = [
  '/usr/lib/libreoffice/program/soffice',
  '/usr/lib64/libreoffice/program/soffice',
  '/opt/libreoffice/program/soffice',
  '/Applications/LibreOffice.app/Contents/MacOS/soffice',
];

const flags = ['--headless', '--norestore', '--nologo', '--nolockcheck', '--nodefault', '--nofirststartwizard'];

export function findLibreOffice(): string | null {
  return findProgramOnPath('soffice') ?? usualPaths.find(isExecutableFile) ?? null;
}

const officeFiles = [
  '/etc/fonts',
  '/var/cache/fontconfig',
  '/etc/libreoffice',
  '/var/lib/libreoffice',
  '/var/spool/libreoffice',
];

/** Restarts LibreOffice when it exits with code 81, as it does at the first start with a new profile. */
const restart = `"$0" "$@"; code=$?; [ $code = 81 ] || exit $code; exec "$0" "$@"`;

/** Runs LibreOffice with a new profile per file. The sandbox allows only a temporary folder with that file. */
export function createLibreOfficeRenderer(deps: {
  path: string;
  sandbox: ParserSandbox;
  tempDir: string;
  limits?: Partial<PdfRenderLimits>;
}): PdfRenderer {
  const limits: PdfRenderLimits = { ...defaultPdfRenderLimits, ...deps.limits };
  const { start, installation } = programOf(deps);
  // Uses at most half of the cores, because each LibreOffice process takes a core and some hundred megabytes, in
  // addition to the parsers.
  const limit = pLimit(Math.max(1, Math.floor(availableParallelism() / 2)));

  return {
    version,
    render: ({ path, format, pdfPath, signal }) =>
      limit(async () => {
        // The caller may have aborted while this rendering waited for a slot.
        signal.throwIfAborted();
        const folder = await makeTemporaryFolder(deps.tempDir, 'print');
        try {
          const source = join(folder, `document.${format}`);
          const profile = join(folder, 'profile');
          await copyFile(path, source, constants.COPYFILE_FICLONE);
          await writeOfficeProfile(profile);
          const profileFlag = `-env:UserInstallation=${pathToFileURL(profile)}`;
          const command = [...start, profileFlag, ...flags, '--convert-to', 'pdf', '--outdir', folder, source] as const;
          const { exitCode, output } = await runProcessGroup({
            command: deps.sandbox.confine(command, {
              read: [...installation, ...officeFiles],
              write: [folder],
              unixSockets: true,
              childProcesses: true,
            }),
            // LibreOffice does not get this process's environment variables, which contain secrets.
            environment: { PATH: programSearchPath, LANG: 'C.UTF-8', HOME: folder, TMPDIR: folder },
            workingDirectory: folder,
            limits,
            signal,
          });
          await requirePdf(join(folder, 'document.pdf'), { exitCode, output }, limits);
          await rename(join(folder, 'document.pdf'), pdfPath);
        } finally {
          await rm(folder, { recursive: true, force: true });
        }
      }),
  };
}

/** In the sandbox, soffice.bin is started directly: the launcher `soffice` needs a socket in /tmp. */
function programOf({ path, sandbox }: { path: string; sandbox: ParserSandbox }): {
  start: readonly [string, ...string[]];
  installation: string[];
} {
  const binary = join(dirname(existsSync(path) ? realpathSync(path) : path), 'soffice.bin');
  if (sandbox.missing !== null || !isExecutableFile(binary)) return { start: [path], installation: [] };
  return {
    start: ['/bin/sh', '-c', restart, binary, '-env:OSL_SOCKET_PATH=.'],
    installation: [dirname(dirname(binary))],
  };
}

/** LibreOffice may exit with code 0 without writing a PDF; its output tells whether the file caused the failure. */
async function requirePdf(
  path: string,
  { exitCode, output }: { exitCode: number | null; output: string },
  { pdfBytes }: Pick<PdfRenderLimits, 'pdfBytes'>,
): Promise<void> {
  const size = (await stat(path).catch(() => undefined))?.size ?? 0;
  if (size > pdfBytes) throw appError('too_large', { detail: pdfTooLargeMessage });
  if (size > 0) return;
  const cause = new Error(`LibreOffice ended with exit code ${exitCode}: ${output.trim()}`);
  const hasCrashed =
    exitCode === null || exitCode >= 128 || /Fatal exception|Unspecified Application Error/.test(output);
  const isFileToBlame = hasCrashed || exitCode === 0 || /source file could not be loaded|^convert /m.test(output);
  if (!isFileToBlame) throw cause;
  throw appError('corrupt_document', { detail: 'LibreOffice cannot open the file or convert it to PDF.', cause });
}

const watchEveryMs = 200;
const keptOutput = 4_000;
/** LibreOffice gets a lower CPU priority: users wait for the other processes, but not for previews. */
const niceness = 10;
const pageBytes = 4_096;

/**
 * Shell script that kills the program's process group when stdin closes, which means that the Node process has died.
 */
const diesWithParent = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & exec "$0" "$@" 3<&-';

/** Result of a program that was not killed. Exit code 126 or 127 means that the program could not be started. */
type ProcessResult = { exitCode: number | null; output: string };

/**
 * Runs a program with its children as a process group. Kills the group at a limit, on abort, when the program leaves
 * children behind, and when this process dies. Throws `conversion_timeout` or `too_large`.
 */
export async function runProcessGroup(run: {
  command: readonly string[];
  environment: Record<string, string>;
  workingDirectory: string;
  limits: Pick<PdfRenderLimits, 'wallMs' | 'memoryBytes'>;
  signal: AbortSignal;
}): Promise<ProcessResult> {
  const { limits, signal } = run;
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', diesWithParent, ...run.command], {
    cwd: run.workingDirectory,
    env: run.environment,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const group = child.pid;
  const kill = () => {
    try {
      if (group !== undefined) process.kill(-group, 'SIGKILL');
    } catch {
      // The kill failed because all processes of the group have ended already.
    }
  };
  let failure: unknown;
  const end = (reason: unknown) => {
    failure ??= reason;
    kill();
  };

  const onAbort = () => end(signal.reason);
  signal.addEventListener('abort', onAbort);
  const wall = setTimeout(() => {
    const seconds = Math.round(limits.wallMs / 1_000);
    end(
      appError('conversion_timeout', {
        detail: `LibreOffice did not convert the file to PDF within ${seconds} seconds.`,
      }),
    );
  }, limits.wallMs);
  const watch = setInterval(async () => {
    const bytes = group === undefined ? 0 : await residentBytes(group).catch(() => 0);
    if (bytes > limits.memoryBytes) {
      end(appError('too_large', { detail: 'LibreOffice exceeded its memory limit while it converted the file.' }));
    }
  }, watchEveryMs);

  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-keptOutput);
    });
  }
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('spawn', () => lowerPriority(group));
      // Waits for `exit` instead of `close`, because child processes left behind may keep the output open.
      child.once('exit', resolve);
    });
    if (failure !== undefined) throw failure;
    return { exitCode, output };
  } finally {
    kill();
    child.stdout.destroy();
    child.stderr.destroy();
    clearTimeout(wall);
    clearInterval(watch);
    signal.removeEventListener('abort', onAbort);
  }
}

async function residentBytes(group: number): Promise<number> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-axo', 'pgid=,rss=']);
    const rows = stdout.split('\n').map((row) => row.trim().split(/\s+/).map(Number));
    return rows.reduce((sum, [pgid, kib = 0]) => sum + (pgid === group ? kib * 1_024 : 0), 0);
  }
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const sizes = await Promise.all(pids.map((pid) => residentBytesIn(group, pid).catch(() => 0)));
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

/** Fields of `/proc/<pid>/stat` are counted after the `)`, because the process name before it may contain spaces. */
async function residentBytesIn(group: number, pid: string): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[2]) === group ? Number(fields[21]) * pageBytes : 0;
}

function lowerPriority(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, niceness);
  } catch {
    // The priority of a program that has ended cannot be changed; the `exit` event reports the end.
  }
}

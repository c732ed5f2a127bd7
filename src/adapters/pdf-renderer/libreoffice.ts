import { constants, existsSync, realpathSync } from 'node:fs';
import { copyFile, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import pLimit from 'p-limit';
import { appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/documents.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { findProgram, isExecutable, type ParserSandbox, usualPath } from '../parser-sandbox.ts';
import { runProcessGroup } from './process-group.ts';
import { defaultRenderLimits, type RenderLimits } from './render-limits.ts';

/**
 * Restricts LibreOffice for untrusted files: no macros, and no links to the web or to local files. The proxy is a port
 * without a listener, so that remaining requests fail.
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

/** Writes a user profile of LibreOffice into a folder. */
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

const usualPlaces = [
  '/usr/lib/libreoffice/program/soffice',
  '/usr/lib64/libreoffice/program/soffice',
  '/opt/libreoffice/program/soffice',
  '/Applications/LibreOffice.app/Contents/MacOS/soffice',
];

const flags = ['--headless', '--norestore', '--nologo', '--nolockcheck', '--nodefault', '--nofirststartwizard'];

/** Path of the program on this machine, or null. */
export function findLibreOffice(): string | null {
  return findProgram('soffice') ?? usualPlaces.find(isExecutable) ?? null;
}

/** Files that it reads outside of its own folder and the system folders. */
const officeFiles = [
  '/etc/fonts',
  '/var/cache/fontconfig',
  '/etc/libreoffice',
  '/var/lib/libreoffice',
  '/var/spool/libreoffice',
];

/** Exit code 81 of a first start with a new profile asks for a restart, as the launcher does. */
const restart = `"$0" "$@"; code=$?; [ $code = 81 ] || exit $code; exec "$0" "$@"`;

/**
 * LibreOffice on this machine: a process and a profile per file, without macros and network. In the sandbox it can write
 * only to the job's folder and cannot read files that a document links to.
 */
export function createLibreOffice(deps: {
  path: string;
  sandbox: ParserSandbox;
  /** Parent of the folders of jobs. */
  tempDir: string;
  limits?: Partial<RenderLimits>;
}): PdfRenderer {
  const limits: RenderLimits = { ...defaultRenderLimits, ...deps.limits };
  const { start, installation } = programOf(deps);
  // Each process takes a core and some hundred megabytes, beside the parsers.
  const limit = pLimit(Math.max(1, Math.floor(availableParallelism() / 2)));

  return {
    version,
    render: ({ path, format, pdfPath, signal }) =>
      limit(async () => {
        // The caller may have given up while this job waited.
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
            // Not our environment, which contains secrets.
            environment: { PATH: usualPath, LANG: 'C.UTF-8', HOME: folder, TMPDIR: folder },
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

/**
 * The launcher cannot run in the sandbox, because it needs a socket in /tmp. The program behind it accepts another folder
 * for the socket: the job's folder, which is the working directory.
 */
function programOf({ path, sandbox }: { path: string; sandbox: ParserSandbox }): {
  start: readonly [string, ...string[]];
  installation: string[];
} {
  const binary = join(dirname(existsSync(path) ? realpathSync(path) : path), 'soffice.bin');
  if (sandbox.missing !== null || !isExecutable(binary)) return { start: [path], installation: [] };
  return {
    start: ['/bin/sh', '-c', restart, binary, '-env:OSL_SOCKET_PATH=.'],
    installation: [dirname(dirname(binary))],
  };
}

/**
 * The exit code is 0 for any result except a crash, which the file caused. The output shows whether LibreOffice got as
 * far as reading the file.
 */
async function requirePdf(
  path: string,
  { exitCode, output }: { exitCode: number | null; output: string },
  { pdfBytes }: Pick<RenderLimits, 'pdfBytes'>,
): Promise<void> {
  const size = (await stat(path).catch(() => undefined))?.size ?? 0;
  if (size > pdfBytes) throw appError('too_large', { detail: 'The file makes too large a PDF.' });
  if (size > 0) return;
  const cause = new Error(`LibreOffice ended with exit code ${exitCode}: ${output.trim()}`);
  const hasCrashed =
    exitCode === null || exitCode >= 128 || /Fatal exception|Unspecified Application Error/.test(output);
  const cameToFile = hasCrashed || exitCode === 0 || /source file could not be loaded|^convert /m.test(output);
  if (!cameToFile) throw cause;
  throw appError('corrupt_document', { detail: 'LibreOffice cannot open the file, or not print it.', cause });
}

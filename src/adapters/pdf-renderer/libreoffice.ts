import { accessSync, constants } from 'node:fs';
import { copyFile, rename, rm, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { appError } from '#src/errors.ts';
import type { PdfRenderer } from '#src/ports/pdf-renderer.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { createGate } from '../gate.ts';
import { writeOfficeProfile } from './office-profile.ts';
import { runProcessGroup } from './process-group.ts';
import { defaultRenderLimits, type RenderLimits } from './render-limits.ts';

const version = 'libreoffice 1';

const usualPath = '/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin';
const usualPlaces = [
  '/usr/lib/libreoffice/program/soffice',
  '/usr/lib64/libreoffice/program/soffice',
  '/opt/libreoffice/program/soffice',
  '/snap/bin/libreoffice',
  '/Applications/LibreOffice.app/Contents/MacOS/soffice',
];

const flags = ['--headless', '--norestore', '--nologo', '--nolockcheck', '--nodefault', '--nofirststartwizard'];

/** The program on this machine, in the places where its packages put it; null where there is none. */
export function findLibreOffice(): string | null {
  const inPath = usualPath.split(':').map((folder) => join(folder, 'soffice'));
  return [...inPath, ...usualPlaces].find(isExecutable) ?? null;
}

/**
 * Shows the program an empty folder in the place of one, where the system lets us: it prints pictures from our disk that
 * a drawing inside of a document names, and has no setting against that.
 */
const withoutFolder = `
hidden=$0
unshareMounts='unshare --user --map-root-user --mount --'
$unshareMounts mount -t tmpfs none "$hidden" 2>/dev/null || exec "$@"
exec $unshareMounts sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$hidden" "$@"`;

/**
 * LibreOffice on this machine: one process and one profile a file, which know nothing of each other, run no macros and
 * fetch nothing.
 */
export function createLibreOffice(deps: {
  path: string;
  /** Where the originals of others are. */
  hiddenDir?: string | undefined;
  /** A folder in which those of the jobs are made, and deleted. */
  tempDir: string;
  limits?: Partial<RenderLimits>;
}): PdfRenderer {
  const limits: RenderLimits = { ...defaultRenderLimits, ...deps.limits };
  const hiding = deps.hiddenDir === undefined ? [] : ['/bin/sh', '-c', withoutFolder, deps.hiddenDir];
  // Each takes a core and some hundred megabytes, beside the parsers.
  const gate = createGate(Math.max(1, Math.floor(availableParallelism() / 2)));

  return {
    version,
    render: ({ path, format, pdfPath, signal }) =>
      gate(async () => {
        // It may have waited here for longer than whoever asked.
        signal.throwIfAborted();
        const folder = await makeTemporaryFolder(deps.tempDir, 'print');
        try {
          const source = join(folder, `document.${format}`);
          const profile = join(folder, 'profile');
          await copyFile(path, source, constants.COPYFILE_FICLONE);
          await writeOfficeProfile(profile);
          const profileFlag = `-env:UserInstallation=${pathToFileURL(profile)}`;
          const { exitCode, output } = await runProcessGroup({
            command: [...hiding, deps.path, profileFlag, ...flags, '--convert-to', 'pdf', '--outdir', folder, source],
            // Nothing of our environment, where the secrets are.
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
 * Its exit code is 0 whatever happens to the file, but for a crash, which is the file's doing; what it says tells whether
 * it came as far as that.
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

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

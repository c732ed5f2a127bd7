import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { once } from './bootstrap/once.mjs';
import { dieWithParent } from './supervisor/parent-death.ts';

const run = promisify(execFile);

const VERSION = '1.8.0';

/**
 * The S3 server of the tests. It is built from its source, once for all checkouts and at the lowest priority, so that
 * whatever else is to do comes first.
 * @returns null where there is no Go, or where it could not be built: tests that need it are skipped
 */
export async function s3Program(toolsDir: string, signal: AbortSignal): Promise<string | null> {
  const folder = join(dirname(toolsDir), `versitygw-${VERSION}`);
  const program = join(folder, 'versitygw');
  if (existsSync(program)) return program;
  const hasGo = await run('go', ['version']).then(
    () => true,
    () => false,
  );
  if (!hasGo) return null;
  try {
    await once({
      what: 'the S3 server of the tests',
      size: '80 MB in your cache',
      lockPath: `${folder}.lock`,
      isDone: () => existsSync(program),
      install: async () => {
        const draft = `${folder}.new`;
        await rm(draft, { recursive: true, force: true });
        const build = ['go', 'install', `github.com/versity/versitygw/cmd/versitygw@v${VERSION}`] as const;
        const [command, ...args] = dieWithParent(['nice', '-n', '19', ...build], 'SIGKILL');
        await run(command, args, { env: { ...process.env, GOBIN: draft }, signal });
        await rename(draft, folder);
      },
    });
    return program;
  } catch {
    if (!signal.aborted)
      console.error('The S3 server of the tests could not be built: those that need it are skipped.');
    return null;
  }
}

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { once } from './bootstrap/once.mjs';
import { dieWithParent } from './supervisor/parent-death.ts';

const run = promisify(execFile);

/** `module` is the path of its main package; `what` and `size` are for people. */
export type GoProgram = { name: string; module: string; version: string; what: string; size: string };

/**
 * A program that is built from its source, once for all checkouts and at the lowest priority, so that whatever else is
 * to do comes first.
 * @param toolsDir beside it the program is kept
 * @returns null where there is no Go, or where it could not be built
 */
export async function goProgram(
  { name, module, version, what, size }: GoProgram,
  toolsDir: string,
  signal: AbortSignal,
): Promise<string | null> {
  const folder = join(dirname(toolsDir), `${name}-${version}`);
  const program = join(folder, name);
  if (existsSync(program)) return program;
  if (!(await hasGo())) return null;
  try {
    await once({
      what,
      size,
      lockPath: `${folder}.lock`,
      isDone: () => existsSync(program),
      install: async () => {
        const draft = `${folder}.new`;
        await rm(draft, { recursive: true, force: true });
        const build = ['go', 'install', `${module}@v${version}`] as const;
        const [command, ...args] = dieWithParent(['nice', '-n', '19', ...build], 'SIGKILL');
        await run(command, args, { env: { ...process.env, GOBIN: draft }, signal });
        await rename(draft, folder);
      },
    });
    return program;
  } catch {
    if (!signal.aborted) console.error(`It could not be built: ${what}.`);
    return null;
  }
}

export async function hasGo(): Promise<boolean> {
  return run('go', ['version']).then(
    () => true,
    () => false,
  );
}

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { installOnce } from './bootstrap/once.mjs';
import { dieWithParent } from './supervisor/parent-death.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const run = promisify(execFile);

type GoProgram = {
  what: string;
  name: string;
  version: string;
  size: string;
  install: readonly string[];
  cwd?: string;
};

/**
 * Builds a Go program that tests need from source, once for all checkouts, at the lowest priority so that tests can run
 * meanwhile.
 * @returns the path of the program; null without Go: tests that need the program are skipped
 * @throws StartFailure with the compiler's error if two builds failed
 */
export async function goProgram(program: GoProgram, toolsDir: string, signal: AbortSignal): Promise<string | null> {
  const { what, name, version, size, install, cwd } = program;
  const folder = join(dirname(toolsDir), `${name}-${version}`);
  const path = join(folder, name);
  if (existsSync(path)) return path;
  const hasGo = await run('go', ['version']).then(
    () => true,
    () => false,
  );
  if (!hasGo) return null;
  const build = () =>
    installOnce({
      what,
      size,
      lockPath: `${folder}.lock`,
      isDone: () => existsSync(path),
      install: async () => {
        const draft = `${folder}.new`;
        await rm(draft, { recursive: true, force: true });
        const [command, ...args] = dieWithParent(['nice', '-n', '19', 'go', 'install', ...install], 'SIGKILL');
        await run(command, args, { cwd, env: { ...process.env, GOBIN: draft }, signal });
        await rename(draft, folder);
      },
    });
  try {
    // Builds a second time, because a download may fail once.
    await build().catch(build);
    return path;
  } catch (error) {
    if (signal.aborted) return null;
    const { stderr = '' } = error as { stderr?: string };
    throw new StartFailure(`${what} could not be built: ${stderr.trim() || error}`);
  }
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

export const ADMIN = join(import.meta.dirname, '..', '..', 'scripts', 'admin.ts');

/** What `npm run admin -- …` runs, in the environment of an installation. */
export async function runAdmin(
  settings: Readonly<Record<string, string>>,
  args: readonly string[],
  { input = '' }: { input?: string } = {},
): Promise<{ stdout: string; stderr: string; code: number }> {
  const env = serviceEnvironment({ ...settings }, ['NODE_COMPILE_CACHE']);
  const child = spawn(process.execPath, [ADMIN, ...args], { env });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { stdout, stderr, code };
}

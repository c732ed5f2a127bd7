import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

export const ADMIN = join(import.meta.dirname, '..', '..', 'scripts', 'admin.ts');

/**
 * Runs `npm run admin -- …` with the settings of an installation.
 * @param options.outputTo a file for the standard output
 */
export async function runAdmin(
  settings: Readonly<Record<string, string>>,
  args: readonly string[],
  { input = '', outputTo }: { input?: string; outputTo?: string } = {},
): Promise<{ stdout: string; stderr: string; code: number }> {
  const env = serviceEnvironment({ ...settings }, ['NODE_COMPILE_CACHE']);
  const file = outputTo === undefined ? null : await open(outputTo, 'w');
  try {
    const child = spawn(process.execPath, [ADMIN, ...args], { env, stdio: ['pipe', file?.fd ?? 'pipe', 'pipe'] });
    child.stdin?.end(input);
    const said = async (stream: Readable | null) => (stream === null ? '' : text(stream));
    const [stdout, stderr, [code]] = await Promise.all([said(child.stdout), said(child.stderr), once(child, 'close')]);
    return { stdout, stderr, code };
  } finally {
    await file?.close();
  }
}

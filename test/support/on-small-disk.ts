import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const mounting = ['--user', '--map-root-user', '--mount'];

/** Whether this machine lets us mount a disk that only a process of ours sees. */
export function hasSmallDisks(): boolean {
  return spawnSync('unshare', [...mounting, 'mount', '-t', 'tmpfs', 'none', tmpdir()]).status === 0;
}

/**
 * Runs a module in a process for which `directory` is a disk of this size.
 * @param source ends with what it prints
 * @returns that
 */
export async function onSmallDisk(options: string, source: (directory: string) => string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'small-disk-'));
  try {
    const script = `mount -t tmpfs -o ${options} none "$1" && exec "$2" --input-type=module --eval "$3"`;
    const args = [...mounting, 'sh', '-c', script, 'sh', directory, process.execPath, source(directory)];
    const { stdout } = await run('unshare', args, { cwd: process.cwd() });
    return stdout.trim();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

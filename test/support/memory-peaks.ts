import { readFile, writeFile } from 'node:fs/promises';

const LOOK_EVERY_MS = 20;

export type MemoryPeaks = { grownBytes: number; childBytes: number };

/**
 * Watches the resident memory of a process and of its children, on Linux.
 * @returns reads by how much the process has grown at most since, and how large its largest child was
 */
export async function watchMemory(pid: number): Promise<() => Promise<MemoryPeaks>> {
  // Forgets the peak of the start.
  await writeFile(`/proc/${pid}/clear_refs`, '5');
  const before = await memoryOf(pid, 'VmRSS');
  let childBytes = 0;
  const look = async () => {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
    const sizes = children.split(' ').map((child) => memoryOf(Number(child), 'VmRSS').catch(() => 0));
    childBytes = Math.max(childBytes, ...(await Promise.all(sizes)));
  };
  const timer = setInterval(() => void look().catch(() => undefined), LOOK_EVERY_MS);
  return async () => {
    clearInterval(timer);
    return { grownBytes: (await memoryOf(pid, 'VmHWM')) - before, childBytes };
  };
}

async function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
}

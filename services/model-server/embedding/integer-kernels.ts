import { readFile } from 'node:fs/promises';

/**
 * Whether this CPU's fast int8 kernels can overflow: x86 adds pairs of products in 16 bits unless it has VNNI. Where
 * nobody can tell it is assumed; ARM always has enough bits.
 */
export async function mayOverflow(): Promise<boolean> {
  if (process.arch !== 'x64') return false;
  const cpu = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  return !/\b(avx512_vnni|avx_vnni)\b/.test(cpu);
}

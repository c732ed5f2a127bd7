import { readFile } from 'node:fs/promises';
import type { InferenceSession } from 'onnxruntime-node';

/** How a session computes in int8 on this CPU so that nothing overflows. */
export async function integerKernelOptions(): Promise<InferenceSession.SessionOptions> {
  // Exact kernels take half as long again, also on a CPU that does not need them.
  return (await mayOverflow()) ? { extra: { session: { x64quantprecision: '1' } } } : {};
}

/**
 * Whether this CPU's fast int8 kernels can overflow: x86 adds pairs of products in 16 bits unless it has VNNI. Where the
 * CPU is unknown it is assumed; ARM always has enough bits.
 */
async function mayOverflow(): Promise<boolean> {
  if (process.arch !== 'x64') return false;
  const cpu = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  return !/\b(avx512_vnni|avx_vnni)\b/.test(cpu);
}

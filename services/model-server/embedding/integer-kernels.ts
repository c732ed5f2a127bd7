import { readFile } from 'node:fs/promises';
import type { InferenceSession } from 'onnxruntime-node';

/** Returns the session options with which onnxruntime's int8 kernels do not overflow on this CPU. */
export async function integerKernelOptions(): Promise<InferenceSession.SessionOptions> {
  // Exact kernels are about 50 % slower, also on CPUs that do not need them.
  return (await mayOverflow()) ? { extra: { session: { x64quantprecision: '1' } } } : {};
}

/**
 * Whether the CPU's fast int8 kernels can overflow: x86 without VNNI adds pairs of products in 16 bits. Returns true
 * for an unknown CPU and false for ARM.
 */
async function mayOverflow(): Promise<boolean> {
  if (process.arch !== 'x64') return false;
  const cpu = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  return !/\b(avx512_vnni|avx_vnni)\b/.test(cpu);
}

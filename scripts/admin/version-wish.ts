import { readFlags } from './command.ts';

/** Undefined: only to be told. */
export type VersionWish = { buildId: string; percent: number | null } | undefined;

const flags = { promote: { type: 'string' }, ramp: { type: 'string' }, percent: { type: 'string' } } as const;

/** @returns what is wrong with the arguments, in words */
export function readVersionWish(args: readonly string[]): { wish: VersionWish } | { wrong: string } {
  const read = readFlags(args, flags);
  if ('wrong' in read) return read;
  const { promote, ramp, percent } = read.values;
  if (read.positionals.length > 0) return { wrong: `"${read.positionals.join(' ')}" is not understood` };
  if (promote !== undefined && ramp === undefined && percent === undefined) {
    return { wish: { buildId: promote, percent: null } };
  }
  if (promote === undefined && ramp !== undefined && /^(\d{1,2}|100)$/.test(percent ?? '')) {
    return { wish: { buildId: ramp, percent: Number(percent) } };
  }
  if (args.length === 0) return { wish: undefined };
  return { wrong: 'it takes --promote <build id>, or --ramp <build id> with --percent 0 to 100' };
}

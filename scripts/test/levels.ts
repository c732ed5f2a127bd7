import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The suffix of a test file gives its level: `x.test.ts` runs every day, `x.system-test.ts` needs real processes or
 * programs that are not packages, `x.faults-test.ts` is a drill that only the full run has time for. See
 * docs/testing.md.
 */
export const TEST_LEVELS = {
  unit: { globs: ['test/unit/**/*.test.ts'], shards: 2, services: false, checks: false },
  everyday: { globs: ['{test,services}/**/*.test.ts'], shards: 3, services: true, checks: true },
  system: { globs: ['{test,services}/**/*.system-test.ts'], shards: 2, services: true, checks: false },
} as const;

export type Level = keyof typeof TEST_LEVELS;

export function filesOf(level: Level): string[] {
  return globSync([...TEST_LEVELS[level].globs]).sort();
}

const TIMINGS = join(import.meta.dirname, 'timings.json');
/** Faster test files are not recorded. */
const RECORDED_SECONDS = 0.5;
const UNRECORDED_SECONDS = 0.2;

type Timings = Record<string, number>;

function readTimings(): Timings {
  return existsSync(TIMINGS) ? JSON.parse(readFileSync(TIMINGS, 'utf8')) : {};
}

export function recordTimings(measured: ReadonlyMap<string, number>): void {
  const timings = readTimings();
  for (const [file, seconds] of measured) {
    if (seconds >= RECORDED_SECONDS) timings[file] = Math.round(seconds * 10) / 10;
    else delete timings[file];
  }
  const sorted = Object.entries(timings)
    .filter(([file]) => existsSync(file))
    .sort(([a], [b]) => a.localeCompare(b));
  writeFileSync(TIMINGS, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
}

/**
 * Splits the test files into shards of about equal duration: longest first, each into the shard with the least so far.
 * The same files and timings always give the same shards in the same order. Unit tests come first: some mock timers,
 * which would break the sweeper and the workers of a stack in the same process.
 */
export function shardFiles(files: readonly string[], count: number): string[][] {
  const timings = readTimings();
  const seconds = (file: string) => timings[file] ?? UNRECORDED_SECONDS;
  const shards = Array.from({ length: Math.min(count, files.length) }, () => ({ seconds: 0, files: [] as string[] }));
  for (const file of files.toSorted((a, b) => seconds(b) - seconds(a) || a.localeCompare(b))) {
    const shortest = shards.reduce((least, shard) => (shard.seconds < least.seconds ? shard : least));
    shortest.seconds += seconds(file);
    shortest.files.push(file);
  }
  return shards.map((shard) => shard.files.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)));
}

function rank(file: string): number {
  return file.startsWith('test/unit/') ? 0 : 1;
}

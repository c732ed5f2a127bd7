import { readdirSync, readFileSync } from 'node:fs';

const SAMPLE_MS = 2_000;
/** Linux's clock ticks per second and page size, as on x86-64 and arm64. */
const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4_096;

export type Usage = { kind: string; cpuSeconds: number; peakBytes: number };

type Sample = { parent: number; kind: string; ticks: number; privateBytes: number };

/**
 * Samples the descendants of this process from `/proc` every two seconds. A process that ends between two samples
 * counts for its parent. Reports nothing without `/proc`.
 */
export function measureUsage(): { stop: () => Usage[] } {
  const latest = new Map<number, Sample>();
  const peakBytes = new Map<string, number>();
  const sample = () => {
    const bytes = new Map<string, number>();
    const alive = descendants();
    for (const [pid, process] of alive) {
      latest.set(pid, process);
      bytes.set(process.kind, (bytes.get(process.kind) ?? 0) + process.privateBytes);
    }
    bytes.set(
      'all',
      [...bytes.values()].reduce((sum, each) => sum + each, 0),
    );
    for (const [kind, now] of bytes) peakBytes.set(kind, Math.max(now, peakBytes.get(kind) ?? 0));
    return alive;
  };
  const timer = setInterval(sample, SAMPLE_MS);
  return {
    stop: () => {
      clearInterval(timer);
      const alive = sample();
      // An ended process counts for its parent, unless the parent is this process.
      const counted = [...latest].filter(([pid, { parent }]) => alive.has(pid) || parent === process.pid);
      const ticks = new Map<string, number>();
      for (const [, { kind, ticks: own }] of counted) {
        ticks.set(kind, (ticks.get(kind) ?? 0) + own);
        ticks.set('all', (ticks.get('all') ?? 0) + own);
      }
      return [...ticks]
        .map(([kind, total]) => ({
          kind,
          cpuSeconds: total / TICKS_PER_SECOND,
          peakBytes: peakBytes.get(kind) ?? 0,
        }))
        .sort((a, b) => b.cpuSeconds - a.cpuSeconds);
    },
  };
}

function descendants(): Map<number, Sample> {
  const all = new Map<number, Sample>();
  for (const pid of readPids()) {
    const process = readProcess(pid);
    if (process) all.set(pid, process);
  }
  const isOurs = (pid: number): boolean => {
    const parent = all.get(pid)?.parent;
    return parent !== undefined && (parent === process.pid || isOurs(parent));
  };
  return new Map([...all].filter(([pid]) => isOurs(pid)));
}

function readPids(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0);
  } catch {
    return [];
  }
}

function readProcess(pid: number): Sample | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The fields follow the program's name, which is in brackets and may contain spaces; see proc(5).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const at = (field: number) => Number(fields[field - 3]);
    const [, resident = 0, shared = 0] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ').map(Number);
    return {
      parent: at(4),
      kind: kindOf(readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
      ticks: at(14) + at(15) + at(16) + at(17),
      privateBytes: (resident - shared) * PAGE_BYTES,
    };
  } catch {
    // The process has ended since it was listed.
    return null;
  }
}

const KINDS: readonly [kind: string, command: RegExp][] = [
  ['test processes', /mocha\.js/],
  ['Temporal', /bin\/temporal/],
  ['Postgres', /postgres/],
  ['model server', /model-server\/main/],
  ['Qdrant facade', /qdrant-facade|qdrant_facade/],
  ['S3 server', /versitygw/],
  ['checks', /node_modules\/(@?typescript|@biomejs|dependency-cruiser|knip)/],
  ['workers', /workers\/main/],
  ['API', /src\/server/],
];

function kindOf(commandLine: string): string {
  return KINDS.find(([, command]) => command.test(commandLine))?.[0] ?? 'others';
}

// `npm run bench:lists [-- documents|logs [<rows>]]` compares the latency of lists and searches at three
// sizes, 1:10:100.
import { cpus, loadavg } from 'node:os';
import { generateConversations } from './lists/conversations.ts';
import { generateDataroom, type Person, type Reader, type TableRow } from './lists/dataroom.ts';
import { growingLogMeasures, logMeasures } from './lists/log-measures.ts';
import { type Measured, startMeasuredLists } from './lists/measured-lists.ts';
import { growingMeasures, type Measure, measures } from './lists/measures.ts';
import { report, reportCurve, roundsOf } from './report.ts';

const [kind = 'documents', rows] = process.argv.slice(2);
const rounds = roundsOf(5);
const requestsPerRound = 20;
const largeRequestsPerRound = 4;
/** P15: p95 at the full size divided by p95 at a hundredth of it. */
const goal = 3;

/** The latencies of a request at each size, in milliseconds. */
type Taken = { name: string; times: number[][] };

if (kind === 'logs') {
  await compare({
    size: Number(rows ?? 1_000_000),
    of: 'chat rounds',
    generate: (size, passwordHash) => generateConversations({ rounds: size, passwordHash }),
    measures: logMeasures,
    growingMeasures: growingLogMeasures,
  });
} else if (kind !== 'documents') {
  throw new Error(`bench:lists measures documents or logs, not ${kind}.`);
} else {
  await compare({
    size: Number(rows ?? 100_000),
    of: 'documents',
    generate: (size, passwordHash) => generateDataroom({ documents: size, passwordHash }),
    measures,
    growingMeasures,
  });
}

async function compare<Room extends { people: Record<Reader, Person> }>(compared: {
  size: number;
  of: string;
  generate: (size: number, passwordHash: string) => Room & { rows: Iterable<TableRow> };
  measures: readonly Measure<Measured<Room>>[];
  growingMeasures: readonly Measure<Measured<Room>>[];
}): Promise<void> {
  const { size, of, generate } = compared;
  const sizes = [Math.round(size / 100), Math.round(size / 10), size];
  const { rooms, stop } = await startMeasuredLists(sizes, generate);
  try {
    console.log(`P15: ${sizes.join(', ')} ${of}; p50, p95 in milliseconds`);
    console.log(
      `${rounds} rounds of ${requestsPerRound} requests in turns, one at a time; goal: p95 at most ${goal}x\n`,
    );
    const steady = await measure(compared.measures, requestsPerRound, rooms);
    print(steady, sizes);
    const searches = steady.filter(({ name }) => name.startsWith('search'));
    const lists = steady.filter((each) => !searches.includes(each));
    for (const [kind, taken] of Object.entries({ lists, searches })) {
      reportSteepest(`${taken.length} ${kind} of ${size} ${of}`, taken, sizes);
      reportCurves({ of, kind }, taken, sizes);
    }
    console.log('\nRequests that read or count all rows:\n');
    const growing = await measure(compared.growingMeasures, largeRequestsPerRound, rooms);
    print(growing, sizes);
    reportCurves({ of, kind: 'growing' }, growing, sizes);
    const machine = `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`;
    console.log(`\nnode ${process.versions.node}, ${machine}, load ${loadavg()[0]?.toFixed(1)}`);
  } finally {
    await stop();
  }
}

async function measure<Room>(
  chosen: readonly Measure<Room>[],
  requests: number,
  rooms: readonly Room[],
): Promise<Taken[]> {
  const taken = chosen.map(({ name, take }) => ({ name, take, times: rooms.map((): number[] => []) }));
  for (let round = 0; round <= rounds; round += 1) {
    for (const { take, times } of taken) {
      for (let request = 0; request < (round === 0 ? 2 : requests); request += 1) {
        for (const [place, room] of rooms.entries()) {
          const ms = await take(room);
          if (round > 0) times[place]?.push(ms);
        }
      }
    }
  }
  return taken;
}

function print(taken: readonly Taken[], sizes: readonly number[]): void {
  console.log(`| | ${sizes.join(' | ')} | ratio of p50, of p95 |`);
  console.log(`|---|${'---|'.repeat(sizes.length)}---|`);
  for (const { name, times } of taken) {
    const cells = times.map((each) => `${at(each, 0.5).toFixed(1)}, ${at(each, 0.95).toFixed(1)}`);
    console.log(
      `| ${[name, ...cells].join(' | ')} | ${growth(times, 0.5).toFixed(2)}, ${growth(times, 0.95).toFixed(2)} |`,
    );
  }
}

/** Reports the request whose p95 grows most: a row for each request would hide the rows of other goals. */
function reportSteepest(what: string, taken: readonly Taken[], sizes: readonly number[]): void {
  const [steepest] = taken.toSorted((a, b) => growth(b.times, 0.95) - growth(a.times, 0.95));
  if (steepest === undefined) return;
  report({
    ...{ goal: 'P15', what: `p95 of ${what}: the one that grows most (${steepest.name})`, unit: 'ms' },
    ...{ rounds: at(steepest.times.at(-1), 0.95), peer: `the same for ${sizes[0]}` },
    ...{ ratios: growth(steepest.times, 0.95), atMost: goal },
  });
}

function reportCurves(group: { of: string; kind: string }, taken: readonly Taken[], sizes: readonly number[]): void {
  for (const { name, times } of taken) {
    const p95 = sizes.map((size, place) => [size, Number(at(times[place], 0.95).toFixed(1))]);
    reportCurve({ ...group, name, p95: Object.fromEntries(p95) });
  }
}

/** The quantile at the largest size divided by that at the smallest. */
function growth(times: Taken['times'], share: number): number {
  return at(times.at(-1), share) / at(times[0], share);
}

function at(values: readonly number[] = [], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

// `npm run bench:lists [-- <documents>]` or `-- logs [<rounds>]` compares the latency of lists and searches at two
// sizes, 1:100.
import { cpus, loadavg } from 'node:os';
import { generateConversations } from './lists/conversations.ts';
import { generateDataroom, type Person, type Reader, type TableRow } from './lists/dataroom.ts';
import { growingLogMeasures, logMeasures } from './lists/log-measures.ts';
import { type Measured, startMeasuredLists } from './lists/measured-lists.ts';
import { growingMeasures, type Measure, measures } from './lists/measures.ts';

const ofLogs = process.argv[2] === 'logs';
const rounds = 5;
const requestsPerRound = 20;
const largeRequestsPerRound = 4;
/** P15: p95 at the full size divided by p95 at a hundredth of it. */
const goal = 3;

if (ofLogs) {
  await compare({
    size: Number(process.argv[3] ?? 1_000_000),
    of: 'rounds, ten in a chat',
    generate: (size, passwordHash) => generateConversations({ rounds: size, passwordHash }),
    measures: logMeasures,
    growingMeasures: growingLogMeasures,
  });
} else {
  await compare({
    size: Number(process.argv[2] ?? 100_000),
    of: 'documents, two chunks each',
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
  const { rooms, stop } = await startMeasuredLists([Math.round(size / 100), size], generate);
  try {
    const [small, large] = rooms;
    if (!small || !large) throw new Error('The benchmark needs organizations of two sizes.');
    console.log(`P15: ${large.size} ${of} to ${small.size}; milliseconds`);
    console.log(
      `${rounds} rounds of ${requestsPerRound} requests in turns, one at a time; goal: p95 at most ${goal}x\n`,
    );
    await print(compared.measures, requestsPerRound, small, large);
    console.log('\nRequests that read or count all rows:\n');
    await print(compared.growingMeasures, largeRequestsPerRound, small, large);
    const machine = `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`;
    console.log(`\nnode ${process.versions.node}, ${machine}, load ${loadavg()[0]?.toFixed(1)}`);
  } finally {
    await stop();
  }
}

async function print<Room extends { size: number }>(
  chosen: readonly Measure<Room>[],
  requests: number,
  small: Room,
  large: Room,
): Promise<void> {
  const taken = chosen.map((measure) => ({ measure, small: [] as number[], large: [] as number[] }));
  for (let round = 0; round <= rounds; round += 1) {
    for (const { measure, ...times } of taken) {
      for (let request = 0; request < (round === 0 ? 2 : requests); request += 1) {
        const [one, other] = [await measure.take(small), await measure.take(large)];
        if (round === 0) continue;
        times.small.push(one);
        times.large.push(other);
      }
    }
  }
  console.log(`| | p50, p95 of ${small.size} | p50, p95 of ${large.size} | ratio of p50, of p95 |`);
  console.log('|---|---|---|---|');
  for (const { measure, small, large } of taken) {
    const [s50, s95, l50, l95] = [at(small, 0.5), at(small, 0.95), at(large, 0.5), at(large, 0.95)];
    const ratios = `${(l50 / s50).toFixed(2)}, ${(l95 / s95).toFixed(2)}`;
    console.log(
      `| ${measure.name} | ${s50.toFixed(1)}, ${s95.toFixed(1)} | ${l50.toFixed(1)}, ${l95.toFixed(1)} | ${ratios} |`,
    );
  }
}

function at(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

// `npm run bench:queues [-- --write] [-- --server]` simulates how long documents of 1,000 organizations wait while one of
// them uploads many. `--server` compares the simulation with Temporal's dev server, `--write` updates docs/capacity.md.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { replaceSections } from './costs/sections.ts';
import { short } from './costs/tables.ts';
import { type Burst, simulateBurst, simulateTwoBursts } from './queues/bursts.ts';
import { waitingChart } from './queues/chart.ts';
import { compareWithServer } from './queues/server.ts';
import { type Order, percentile } from './queues/simulation.ts';

const { values } = parseArgs({
  options: { write: { type: 'boolean', default: false }, server: { type: 'boolean', default: false } },
});

const fair: Order = { kind: 'fair' };
const small: Burst = { documents: 10_000, slotSeconds: 1, priority: 2 };
const large: Burst = { documents: 1_000, slotSeconds: 30, priority: 2 };
const cases: { name: string; burst: Burst; order: Order }[] = [
  { name: '10,000 small documents, one FIFO queue', burst: small, order: { kind: 'fifo' } },
  { name: 'with fairness keys (as shipped)', burst: small, order: fair },
  { name: 'with fairness keys, four partitions', burst: small, order: { ...fair, partitions: 4 } },
  { name: '1,000 documents of 30 s, one FIFO queue', burst: large, order: { kind: 'fifo' } },
  { name: 'with fairness keys (as shipped)', burst: large, order: fair },
];

const results = cases.map(({ name, burst, order }) => ({ name, ...simulateBurst(burst, order) }));
const table = [
  '| One of 1,000 organizations uploads at once | wait of the others, p50 | p95 | longest | its last document done after |',
  '|---|---|---|---|---|',
  ...results.map(({ name, others, burstSeconds }) => {
    const waits = others.map(({ waited }) => waited);
    const shown = [percentile(waits, 0.5), percentile(waits, 0.95), Math.max(...waits), burstSeconds];
    return `| ${name} | ${shown.map(seconds).join(' | ')} |`;
  }),
];
const [fifo, keys] = results;
const documents = 5_000;
table.push(
  '',
  `| Two organizations upload ${documents.toLocaleString('en')} small documents each | first done after | second |`,
  '|---|---|---|',
  ...[1, 4].map((weight) => {
    const ends = simulateTwoBursts({ documents, weight });
    return `| ${weight === 1 ? 'equal weights (as shipped)' : `weight ${weight} for the first (not used)`} | ${ends.map(seconds).join(' | ')} |`;
  }),
);
console.log(table.join('\n'));
if (values.write) {
  await replaceSections('docs/capacity.md', { queues: table });
  const chart = waitingChart({ fifo: fifo?.others ?? [], fair: keys?.others ?? [] });
  await writeFile(join(import.meta.dirname, '..', 'docs', 'capacity-fairness.svg'), chart);
}
if (values.server) {
  const compared = await compareWithServer();
  console.log(`\n${compared.join('\n')}`);
  if (values.write) await replaceSections('docs/capacity.md', { server: compared });
}

function seconds(value: number): string {
  return value < 0.1 ? `${short(1_000 * value)} ms` : `${short(value)} s`;
}

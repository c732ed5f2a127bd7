import { processNames } from '../measured-product.ts';

/** What one unit of a kind of work costs. CPU times are without the idle share. */
export type UnitCost = {
  unit: string;
  units: number;
  cpuMs: Record<string, number>;
  tables: { name: string; rows: number; bytes: number }[];
  walBytes: number;
  blobBytes: number;
  temporalBytes: number;
  networkBytes: number;
  runs: number;
  events: number;
  historyBytes: number;
  actions: number;
  heartbeats: number;
};

export const vectorTable = 'chunk_vectors';
const shownTables = 4;

export const sizeOf = (cost: UnitCost, isWanted: (name: string) => boolean): number =>
  cost.tables.filter(({ name }) => isWanted(name)).reduce((sum, { bytes }) => sum + bytes, 0);

export function costTables(
  costs: readonly UnitCost[],
  idle: { cpuMsPerSecond: Record<string, number>; memoryMb: Record<string, number> },
): string[] {
  const row = (name: string, of: (cost: UnitCost) => string) => `| ${name} | ${costs.map(of).join(' | ')} |`;
  const kilobytes = (bytes: number) => short(bytes / 1_000);
  return [
    `| | ${costs.map(({ unit }) => unit).join(' | ')} |`,
    `|---|${costs.map(() => '---').join('|')}|`,
    row('measured', ({ units }) => String(units)),
    ...processNames.map((name) => row(`CPU-ms, ${name}`, ({ cpuMs }) => short(cpuMs[name] ?? 0))),
    row('kB, Postgres without vectors', (cost) => kilobytes(sizeOf(cost, (name) => name !== vectorTable))),
    row('kB, vectors (in Postgres)', (cost) => kilobytes(sizeOf(cost, (name) => name === vectorTable))),
    row('kB, originals and derived files', ({ blobBytes }) => kilobytes(blobBytes)),
    row('kB, Temporal (SQLite)', ({ temporalBytes }) => kilobytes(temporalBytes)),
    row('kB, of that event histories', ({ historyBytes }) => kilobytes(historyBytes)),
    row("kB, Postgres' write-ahead log", ({ walBytes }) => kilobytes(walBytes)),
    row('kB, network between processes', ({ networkBytes }) => kilobytes(networkBytes)),
    row('Temporal runs', ({ runs }) => short(runs)),
    row('Temporal events', ({ events }) => short(events)),
    row('Temporal actions', ({ actions }) => short(actions)),
    row('and heartbeats, estimated', ({ heartbeats }) => short(heartbeats)),
    '',
    `| | Rows in Postgres, and kB with indexes, of the ${shownTables} largest tables |`,
    '|---|---|',
    ...costs.map(({ unit, tables }) => `| ${unit} | ${rowsOf(tables)} |`).filter((line) => !line.endsWith('|  |')),
    '',
    `| With nothing to do | ${processNames.join(' | ')} |`,
    `|---|${processNames.map(() => '---').join('|')}|`,
    `| CPU-ms per second | ${processNames.map((name) => short(idle.cpuMsPerSecond[name] ?? 0)).join(' | ')} |`,
    `| MB (PSS) | ${processNames.map((name) => String(idle.memoryMb[name] ?? 0)).join(' | ')} |`,
  ];
}

function rowsOf(tables: UnitCost['tables']): string {
  return tables
    .filter(({ rows }) => rows >= 0.05)
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, shownTables)
    .map(({ name, rows, bytes }) => `${short(rows)} ${name} ${short(bytes / 1_000)}`)
    .join(', ');
}

/** Two significant digits; more would pretend a precision that one run on one machine does not have. */
export function short(value: number): string {
  if (value < 0.05) return '0';
  return Number(value.toPrecision(2)).toLocaleString('en');
}
